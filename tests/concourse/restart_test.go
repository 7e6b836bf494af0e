//go:build e2e

package concourse

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// shims are the containers that have one, or the missing ones.
func (u *unit) shims(gone bool) string {
	u.t.Helper()
	state := "[ -e /run/containerd/runc/concourse/$id ] "
	if gone {
		state = "[ ! -e /run/containerd/runc/concourse/$id ] "
	}
	return u.must("for p in /proc/[0-9]*; do id=$(tr '\\0' ' ' <$p/cmdline 2>/dev/null | sed -n 's/^[^ ]*containerd-shim-runc-v2 .*-id \\([^ ]*\\).*/\\1/p'); " +
		"[ -z \"$id\" ] || ! " + state + "|| echo $id; done")
}

// ticks starts a task that prints a line each second until it is let go.
func (s *story) ticks(name string) *oneBuild {
	s.t.Helper()
	return s.begins(name, fmt.Sprintf("echo %s >/srv/out_rw/%[1]s; while [ ! -e /srv/out_rw/end ]; do echo tick; sleep 1; done; echo %[1]s has ended", name))
}

// soFar returns what fly has printed of the build.
func (b *oneBuild) soFar(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(b.log)
	require.NoError(t, err)
	return string(data)
}

// restarts: systemd must not kill the worker, and its next process takes over the
// tasks that run.
func (s *story) restarts(t *testing.T) {
	s.sets(map[string]any{"gpu-sharing": "exclusive", "extra-web-flags": ""})
	builds := []*oneBuild{s.ticks("restarted-0"), s.ticks("restarted-1")} // one on each worker
	until(t, func() bool { return s.runs(builds[0]) && s.runs(builds[1]) }, "the tasks do not run")
	for _, u := range s.app.units[1:] {
		u.must("systemctl stop " + concourse.Unit)
		require.Equal(t, "success", u.show(concourse.Unit, "Result"), "timeout, if systemd killed it")
		u.must("systemctl start " + concourse.Unit)
	}
	for _, u := range s.app.units[1:] {
		s.ready(u)
		until(t, func() bool { return s.has(s.nameOf(u)) }, u.Model.Unit)
		require.Contains(t, u.leases(), "by the task of container ", "%s: its task has the GPU still", u.Model.Unit)
		require.NotEmpty(t, u.shims(false), u.Model.Unit)
	}
	for _, b := range builds { // an 8.2 web loses a task that ends before it attaches to it again
		before := b.soFar(t)
		until(t, func() bool { return len(b.soFar(t)) > len(before) || b.ended() }, "%s: no output after the restart", b.name)
	}
	s.letGo(builds...)
	for _, u := range s.app.units[1:] {
		until(t, func() bool { return u.shims(true) == "" }, u.Model.Unit)
	}
	s.sets(map[string]any{"gpu-sharing": "shared"})
}
