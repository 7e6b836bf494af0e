//go:build e2e

package run

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/procfile"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// process returns a running process as a group takes it.
func process(t *testing.T, pid int) lease.Process {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	require.NoError(t, err)
	s, err := procfile.ParseStat(string(text))
	require.NoError(t, err)
	return lease.Process{PID: pid, Start: s.Start}
}

// Numbers of DRM nodes. No driver has the second one, so that an open that the kernel allows
// fails with ENXIO.
var null, driverless = rungroup.Device{Major: 1, Minor: 3}, rungroup.Device{Major: 226, Minor: 250}

// node makes a node in a folder that no program uses.
func node(t *testing.T, d rungroup.Device) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node")
	require.NoError(t, unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(d.Major, d.Minor))))
	return path
}

func TestFilterOfAGroupRefusesOnlyItsNodes(t *testing.T) {
	need(t)
	groups, err := rungroup.Find()
	require.NoError(t, err)
	dir, err := rungroup.Make(groups.Mount, "run-0123456789ab")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rungroup.Remove(dir)) })
	require.NoError(t, rungroup.Deny(dir, nil), "a run with all GPUs")
	require.NoError(t, rungroup.Deny(dir, []rungroup.Device{null, driverless}))

	// The script ends its answer with an empty line. The shell waits for a line before it opens the nodes.
	script := `read line; for n in "$@"; do if (exec <"$n"); then echo opened; fi; done; echo; exec sleep 1000`
	c := exec.Command("sh", "-c", script, "sh", node(t, null), node(t, rungroup.Device{Major: 1, Minor: 5}),
		node(t, driverless))
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	c.Stderr = c.Stdout
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })

	wrong := process(t, c.Process.Pid)
	wrong.Start++
	require.ErrorContains(t, groups.Move(dir, wrong), "it has ended")
	require.NoError(t, groups.Move(dir, process(t, c.Process.Pid)))
	run, err := groups.RunOf(c.Process.Pid)
	require.NoError(t, err)
	require.Equal(t, "run-0123456789ab", run)
	all, err := groups.All()
	require.NoError(t, err)
	require.Contains(t, all, dir)

	_, err = stdin.Write([]byte("go\n"))
	require.NoError(t, err)
	said := ""
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != ""; {
		said += lines.Text() + "\n"
	}
	require.Equal(t, 1, strings.Count(said, "opened"), "only /dev/zero: %s", said)
	require.Equal(t, 2, strings.Count(said, "Operation not permitted"), said)
	inside, err := lease.Leases{}.InGroup(dir)
	require.NoError(t, err)
	require.Contains(t, inside, process(t, c.Process.Pid))
	require.Error(t, rungroup.Remove(dir), "it has processes")

	fd, err := unix.Open(node(t, driverless), unix.O_RDONLY, 0)
	require.True(t, errors.Is(err, unix.ENXIO), "outside of the group the kernel allows it: %d, %v", fd, err)

	for _, p := range inside {
		require.NoError(t, unix.Kill(p.PID, unix.SIGKILL))
	}
	_ = c.Wait()
	require.Eventually(t, func() bool { return rungroup.Remove(dir) == nil }, eventually, tick)
}
