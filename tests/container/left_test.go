//go:build e2e

package container

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	worker "github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// A privileged task is in no control group of the worker's, may leave the one it has, and
// its background processes belong to no session of the task's: yet none may keep a GPU open
// when the unit no longer exists. Run on cgroup v1 and v2, as the machine has it.
func TestNothingOfAPrivilegedTaskOutlivesTheWorker(t *testing.T) {
	b := newBed(t, 0o660)
	b.configure(oci.Config{GPUs: oneGPU})
	ctr := b.containerd()
	b.bundle()
	require.NoError(t, os.Mkdir(b.path("events"), 0o777))
	// Concourse's namespace of containerd; its init waits, and the task comes by exec.
	out, err := ctr("run", "--detach", "--rootfs", "--privileged",
		"--mount", "type=bind,src="+b.path("volume")+",dst=/tmp/build/0badcafe,options=rbind:rw",
		"--mount", "type=bind,src="+b.path("events")+",dst=/events,options=rbind:rw",
		b.path("bundle/rootfs"), b.id, "/bin/busybox", "sleep", "600")
	require.NoError(t, err, out)
	const away = `mkdir -p /cg && for c in devices pids freezer; do
  mkdir -p /cg/$c; busybox mount -t cgroup -o $c none /cg/$c 2>/dev/null && echo $$ > /cg/$c/cgroup.procs
done
busybox mount -t cgroup2 none /cg 2>/dev/null && echo $$ > /cg/cgroup.procs
exec 3<>/dev/dri/renderD128 && echo open > /events/said && exec busybox sleep 600
`
	require.NoError(t, os.WriteFile(b.path("events/away"), []byte(away), 0o644))
	out, err = ctr("tasks", "exec", "--exec-id", "task", b.id, "/bin/busybox", "sh", "-c",
		"busybox setsid busybox sh /events/away </dev/null >/dev/null 2>&1 & while [ ! -s /events/said ]; do busybox usleep 10000; done")
	require.NoError(t, err, out)
	require.NotEmpty(t, holders(t), "nothing has the GPU open: the test shows nothing")

	h := host.Host{Root: "/", Runner: noRunner{t}, Clock: host.WallClock{}}
	p, err := plan.Diff(context.Background(), h, worker.Drain{Why: "the unit is removed"})
	require.NoError(t, err)
	require.Len(t, p, 1)
	notes, err := p.Apply(context.Background(), nil)
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Empty(t, holders(t))
	out, err = ctr("tasks", "delete", "--force", b.id)
	require.NoError(t, err, out)
	out, err = ctr("containers", "delete", b.id)
	require.NoError(t, err, out)
}

// noRunner fails at each command: a worker that is down needs none.
type noRunner struct{ t *testing.T }

func (n noRunner) Run(_ context.Context, c host.Command) ([]byte, error) {
	n.t.Fatal("unexpected: ", c)
	return nil, nil
}

// holders are the processes of the machine that have a stand-in for a GPU open.
func holders(t *testing.T) (pids []string) {
	t.Helper()
	fds, err := filepath.Glob("/proc/[0-9]*/fd/*")
	require.NoError(t, err)
	for _, fd := range fds {
		to, err := os.Readlink(fd)
		if err == nil && strings.HasSuffix(to, "/dri/renderD128") {
			pids = append(pids, strings.Split(fd, "/")[2])
		}
	}
	return pids
}
