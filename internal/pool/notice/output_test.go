package notice

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/procfile"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// processOf returns a running process as leases identify it.
func processOf(t *testing.T, pid int) lease.Process {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	require.NoError(t, err)
	stat, err := procfile.ParseStat(string(text))
	require.NoError(t, err)
	return lease.Process{PID: pid, Start: stat.Start}
}

// taskWith starts a process as the first one of a task, with this output. This test is its shim.
func taskWith(t *testing.T, output *os.File) (*exec.Cmd, container) {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = output, output
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return cmd, container{init: processOf(t, os.Getppid()), tasks: []lease.Process{processOf(t, cmd.Process.Pid)}}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}

func TestNoticeIsALineOfTheTasksOutput(t *testing.T) {
	r, w := pipe(t)
	_, c := taskWith(t, w)
	require.NoError(t, Tasks{}.notify(c, "GPU 0 hangs"))
	text := make([]byte, 100)
	n, err := r.Read(text)
	require.NoError(t, err)
	require.Equal(t, "\nGPU 0 hangs\n", string(text[:n]))

	fd := int(w.Fd())
	require.NoError(t, unix.SetNonblock(fd, true))
	for err == nil {
		_, err = unix.Write(fd, make([]byte, 4096))
	}
	require.ErrorIs(t, Tasks{}.notify(c, "GPU 0 hangs"), errFull, "nothing waits for the shim")
}

// A task can put any file in place of its output. Only one that leads to Concourse is written.
func TestNoticeIsNotWrittenElsewhere(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { null.Close() })
	unread, unreadEnd := pipe(t)
	require.NoError(t, unread.Close())
	for name, output := range map[string]*os.File{"a file": file, "nothing": null, "a pipe without a reader": unreadEnd} {
		_, c := taskWith(t, output)
		require.ErrorIs(t, Tasks{}.notify(c, "GPU 0 hangs"), errNowhere, name)
	}
	size, err := file.Seek(0, 2)
	require.NoError(t, err)
	require.Zero(t, size)

	require.ErrorIs(t, Tasks{}.notify(container{}, "x"), errNoTask)
	_, w := pipe(t)
	_, c := taskWith(t, w)
	c.init = processOf(t, os.Getpid())
	require.ErrorIs(t, Tasks{}.notify(c, "x"), errNowhere, "the container's own first process made it, and not Concourse")
	c.init, c.tasks[0].Start = processOf(t, os.Getppid()), c.tasks[0].Start+1
	require.ErrorIs(t, Tasks{}.notify(c, "x"), errNoTask, "another process has its number")
}

// A container without processes has ended.
func TestContainerWithoutProcessesHasEnded(t *testing.T) {
	_, err := Tasks{Leases: lease.Leases{Proc: t.TempDir()}}.find(build)
	require.ErrorIs(t, err, errNoContainer)
}
