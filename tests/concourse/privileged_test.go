//go:build e2e

package concourse

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// privileged tasks run on the worker in a user namespace alone. Concourse gives them all
// capabilities, which root of a user namespace has. A machine without one has the host's
// bounding set, which is short if these tests run in a container.
func (s *story) privileged(t *testing.T) {
	t.Log("not shown: a privileged task of fly on a worker without a user namespace; TestTheUnitsOnSystemd has a container like one")
	worker := s.app.units[1]
	require.True(t, worker.shifted)
	s.sets(map[string]any{"gpu-sharing": "exclusive", "extra-web-flags": "--max-active-tasks-per-worker=0"})
	b := s.begins("privileged", "exec 3<>/dev/kfd 4<>/dev/dri/renderD128; echo ids: $(cat /proc/self/uid_map); cat /etc/cdi/amd.json; ! touch /srv/models/new; "+
		"echo >/srv/out_rw/privileged; while [ ! -e /srv/out_rw/end ]; do sleep 1; done; echo privileged has ended", "--privileged")
	until(t, func() bool {
		require.False(t, b.ended(), b.out)
		return s.runs(b)
	}, "the task does not run")
	require.Contains(t, worker.holders(), "sh")
	require.Contains(t, worker.leases(), "by the task of container ")
	out, err := s.execute("echo hello")
	require.Error(t, err, out)
	require.Contains(t, out, "runc-amd-wrapper: cannot lease 1 GPU: 0 of 1 are free; 0 (GPU-")
	s.letGo(b)
	require.Contains(t, b.out, `"kind":"amd.com/gpu","devices":[{"name":"0",`, "an engine in it finds its GPUs")
	require.Contains(t, b.out, `"fileMode":438`, "as they are in the task, and not as the unit has them")
	require.Contains(t, b.out, "/srv/models/new: Read-only file system")
	require.Contains(t, b.out, "\nids: "+strings.Join(strings.Fields(worker.must("cat /proc/self/uid_map")), " "), "it has no user namespace of its own")
	s.sets(map[string]any{"gpu-sharing": "shared"})
}

// leavesBehind runs a privileged task that has left a process of another session
// when it ends. Concourse keeps its container for some minutes.
func (s *story) leavesBehind() {
	s.t.Helper()
	script := "exec 3<>/dev/dri/renderD128; setsid sleep 10000 >/dev/null 2>&1 & echo left"
	out, err := s.fly.run(append(s.oneOff("leaves", script), "--privileged")...)
	require.NoError(s.t, err, out)
	require.Contains(s.t, out, "\nleft")
}
