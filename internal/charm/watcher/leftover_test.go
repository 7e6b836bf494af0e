package watcher

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/pool/lease"
	"concourse-ci-machine/internal/testutil/hosttest"
)

// inside puts a process that /proc shows as one of the container c1.
func inside(t *testing.T, u *Unit, pid, parent int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d", pid)
	hosttest.Put(t, u.Host.Root, dir+"/stat", fmt.Sprintf("%d (sh) S %d 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1 1 1 1\n", pid, parent))
	hosttest.Put(t, u.Host.Root, dir+"/cgroup", "0::/garden/c1\n")
	require.NoError(t, u.Host.MkdirAll(dir+"/ns", 0o755))
	require.NoError(t, os.Symlink("pid:[2]", u.Host.Path(dir+"/ns/pid")))
}

// The look ends what an ended task left on its GPU, unless the unit keeps that.
func TestLookEndsWhatTasksLeft(t *testing.T) {
	for option, ends := range map[string]bool{"end": true, "keep": false} {
		t.Run(option, func(t *testing.T) {
			u := leaseUnit(t, leasing("gpu-leftovers", option))
			var sent []string
			u.Signal = func(p lease.Process, sig unix.Signal) error {
				sent = append(sent, fmt.Sprint(unix.SignalName(sig), " ", p.PID))
				return nil
			}
			require.NoError(t, u.Host.MkdirAll("/proc/self/ns", 0o755))
			require.NoError(t, os.Symlink("pid:[1]", u.Host.Path("/proc/self/ns/pid")))
			runs(t, u.Host.Root, "4711")
			c := lease.Call{Container: "c1", Bundle: u.Host.Path("/run/b"), PidFile: u.Host.Path("/run/b/init.pid"), Cgroup: "c1", PID: 4711}
			l, err := u.readLeases()
			require.NoError(t, err)
			gpus, err := l.Take(c, lease.Want{Count: 1})
			require.NoError(t, err)
			inside(t, u, 5000, 4711)
			hosttest.Put(t, u.Host.Root, "/run/b/init.pid", "5000")
			require.NoError(t, l.Enter(c, gpus))
			hosttest.Put(t, u.Host.Root, "/run/b/task.pid", "5001") // it is gone
			inside(t, u, 5002, 5000)
			require.NoError(t, u.Host.Remove("/proc/4711/stat"))

			var out bytes.Buffer
			for range 3 {
				require.NoError(t, u.ReportLeases(t.Context(), &out))
				u.after(6 * time.Second)
			}
			require.Contains(t, gpuStatus(t, u, term.Format{}), "by the ended task of container c1 since ")
			if !ends {
				require.Empty(t, sent)
				require.Empty(t, out.String())
				return
			}
			require.Equal(t, "SIGTERM 5002", sent[0])
			require.Equal(t, "SIGKILL 5002", sent[len(sent)-1])
			require.Contains(t, out.String(), "container c1: sent SIGKILL to 1 process that its task left behind, as it holds GPU ")
		})
	}
}
