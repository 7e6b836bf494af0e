//go:build e2e

package pebble

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
)

// privately runs do on a thread with its own mounts; what do starts has them too. The
// thread ends with it.
func privately(t *testing.T, do func() error) {
	t.Helper()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // for good
		err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = do()
		}
		failed <- err
	}()
	require.NoError(t, <-failed)
}

// task starts a process of another user that holds a GPU's node open, as a task does: in
// its own /dev. It returns the process and the descriptor.
func task(t *testing.T, node string) (pid int, fd string) {
	t.Helper()
	cmd := exec.Command("/bin/cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 100000, Gid: 100000}}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	privately(t, func() error {
		if err := unix.Mount("tmpfs", "/dev", "tmpfs", 0, ""); err != nil {
			return err
		}
		if err := os.Mkdir("/dev/dri", 0o755); err != nil {
			return err
		}
		f, err := os.OpenFile("/dev/dri/"+node, os.O_CREATE|os.O_RDWR, 0o666)
		if err != nil {
			return err
		}
		defer f.Close()
		cmd.ExtraFiles = []*os.File{f}
		cmd.Stdout, cmd.Stderr = io.Discard, io.Discard // without /dev/null
		return cmd.Start()
	})
	t.Cleanup(func() {
		in.Close()
		require.NoError(t, cmd.Wait())
	})
	return cmd.Process.Pid, "3"
}

// Without a GPU's driver nothing prints a client's books. They are a stand-in, put over the
// process's fdinfo and readable by no one but root, as the kernel's own; the process, its
// descriptors and who may see them are real.
func TestExporterReportsWhoUsesTheGPUOfAnotherUsersProcess(t *testing.T) {
	t.Parallel()
	u := newUnit(t)
	list, _, err := monitor.All(u.gpus)()
	require.NoError(t, err)
	nodes, err := u.gpus.ReadDir(list[0].Own() + "/drm")
	require.NoError(t, err)
	node := nodes[len(nodes)-1].Name()
	require.True(t, strings.HasPrefix(node, "renderD"), node)
	pid, fd := task(t, node)
	books := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(books, fd), fmt.Appendf(nil,
		"drm-driver:\tamdgpu\ndrm-pdev:\t%s\ndrm-client-id:\t7\ndrm-memory-vram:\t1024 KiB\ndrm-engine-gfx:\t2500000000 ns\n", list[0].PCI), 0o400))

	var d *daemon
	privately(t, func() error {
		proc := u.gpus.Path("/proc")
		if err := unix.Mount("/proc", proc, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
		if err := unix.Mount(books, filepath.Join(proc, strconv.Itoa(pid), "fdinfo"), "", unix.MS_BIND, ""); err != nil {
			return err
		}
		d = u.start(t)
		return nil
	})
	d.serving()
	var text string
	eventually(t, func() bool {
		_, text = d.get("/metrics")
		return strings.Contains(text, "rocm_exporter_usage_left_out{")
	}, "no look at the users is told")
	require.Contains(t, text, `rocm_exporter_usage_left_out{reason="unreadable"} 0`)
	require.Regexp(t, `rocm_gpu_container_memory_bytes\{container="",gpu="0",kind="vram",[^}]*\} 1.048576e\+06\n`, text)
	require.Regexp(t, `rocm_gpu_container_engine_seconds_total\{container="",engine="gfx",gpu="0",[^}]*\} 2.5\n`, text)
}

// It has no check of Pebble's: it watches itself, and the exporter serves on.
func TestHelperIsStartedAgainBesideTheExporter(t *testing.T) {
	t.Parallel()
	u := newUnit(t, "write-gpus", "write-gpus --usage.interval=5s", role.BinDir+"/dispatch", "/bin/true")
	d := u.start(t)
	pid, helper := d.serving(), 0
	writes := func() bool {
		now := u.helpers()
		if again := len(now) == 1 && now[0] != helper && u.gpus.Exists(role.UsageReport) && u.gpus.Exists(role.GPUReport); !again {
			return false
		}
		helper = now[0]
		return true
	}
	eventually(t, writes, "nothing is written")
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		require.NoError(t, syscall.Kill(helper, signal))
		require.NoError(t, u.gpus.Remove(role.UsageReport))
		require.NoError(t, u.gpus.Remove(role.GPUReport))
		eventually(t, writes, "%s: it is not started again", signal)
	}
	require.Equal(t, []int{pid}, u.pids())
}
