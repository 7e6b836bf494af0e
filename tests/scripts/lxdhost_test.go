//go:build e2e

package scripts

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lxdHost is one private LXD, as tests/lxd starts it, on a host with three
// made-up cards and a kfd.
type lxdHost struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
}

// needLXD skips where this machine has no LXD to run privately. Under `make e2e`
// (E2E=1) only a release without the package is a reason to skip.
func needLXD(t *testing.T) {
	t.Helper()
	for _, p := range strings.Split(os.Getenv("E2E_WITHOUT"), ",") {
		if p == "lxd" || p == "lxd-client" {
			t.Skipf("this release has no package %s", p)
		}
	}
	missing := t.Skipf
	if os.Getenv("E2E") == "1" {
		missing = t.Fatalf
	}
	if os.Getuid() != 0 {
		missing("needs root")
	}
	for _, name := range []string{"lxc", "lxd", "busybox", "unshare", "jq"} {
		path, err := exec.LookPath(name)
		if err != nil {
			missing("%v; `make e2e` installs it", err)
		}
		if path, err = filepath.EvalSymlinks(path); err != nil || filepath.Base(path) == "snap" {
			missing("%s is not Debian's: %s", name, path)
		}
	}
}

func startLXD(t *testing.T) *lxdHost {
	t.Helper()
	dir, err := os.MkdirTemp("", "lxd-e2e-") // short: its socket's path has a limit of 107 bytes
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711)) // the container's root has to pass
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	groups := lxcGroups(t)
	t.Cleanup(func() { removeGroups(t, groups) })
	real, err := exec.LookPath("lxd")
	require.NoError(t, err)
	script, err := filepath.Abs("../lxd/testdata/host.sh")
	require.NoError(t, err)
	instead, err := os.ReadFile("testdata/gpuhost.sh")
	require.NoError(t, err)
	for _, d := range []string{"lxd", "bin", "fake"} {
		require.NoError(t, os.Mkdir(dir+"/"+d, 0o711))
	}
	require.NoError(t, os.WriteFile(dir+"/bin/lxd", instead, 0o755))

	var out bytes.Buffer
	h := &lxdHost{t: t, dir: dir}
	h.cmd = exec.Command("unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork",
		"--kill-child", "--propagation", "private", "--mount-proc", "sh", script)
	h.cmd.Env = append(os.Environ(), "LXD_DIR="+dir+"/lxd", "PATH="+dir+"/bin:"+os.Getenv("PATH"), "FAKE="+dir+"/fake", "REAL_LXD="+real)
	h.cmd.Stdout, h.cmd.Stderr, h.cmd.WaitDelay = &out, &out, 20*time.Second
	// The signal comes when the thread that started it ends, hence the lock.
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, h.cmd.Start())
	t.Cleanup(func() {
		h.stop()
		if t.Failed() {
			t.Logf("daemon: %s", out.String())
		}
	})
	h.run("", real, "waitready", "--timeout", "20")
	return h
}

// stop kills the host's first process; the kernel takes all others with it.
func (h *lxdHost) stop() {
	pid := h.cmd.Process.Pid
	if list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)); err == nil {
		if child, err := strconv.Atoi(strings.TrimSpace(string(list))); err == nil {
			pid = child
		}
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		h.t.Errorf("cannot stop the daemon: %v", err)
	}
	h.cmd.Wait() // its error is that it was killed
}

func (h *lxdHost) env() []string {
	return []string{"LXD_DIR=" + h.dir + "/lxd", "LXD_CONF=" + h.dir + "/client"}
}

func (h *lxdHost) run(stdin string, argv ...string) string {
	h.t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	c.Env, c.Stdin = append(os.Environ(), h.env()...), strings.NewReader(stdin)
	out, err := c.CombinedOutput()
	require.NoError(h.t, err, "%v: %s", argv, out)
	return strings.TrimSpace(string(out))
}

// launch makes a container of Debian's static busybox and an init that waits.
func (h *lxdHost) launch(name string) {
	t := h.t
	path, err := exec.LookPath("busybox")
	require.NoError(t, err)
	busybox, err := os.ReadFile(path)
	require.NoError(t, err)
	f, err := elf.NewFile(bytes.NewReader(busybox))
	require.NoError(t, err)
	for _, p := range f.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type, "%s is not the one of busybox-static", path)
	}
	begin, err := os.ReadFile("../lxd/testdata/init.sh")
	require.NoError(t, err)
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(head tar.Header, content []byte) {
		head.Size = int64(len(content))
		require.NoError(t, w.WriteHeader(&head))
		_, err := w.Write(content)
		require.NoError(t, err)
	}
	add(tar.Header{Name: "metadata.yaml", Mode: 0o644}, []byte("architecture: "+arch+"\ncreation_date: 1\nproperties: {os: busybox}\n"))
	for _, dir := range []string{"", "bin", "sbin", "dev", "proc", "sys", "etc", "root", "run", "tmp"} {
		add(tar.Header{Name: "rootfs/" + dir, Mode: 0o755, Typeflag: tar.TypeDir}, nil)
	}
	add(tar.Header{Name: "rootfs/bin/busybox", Mode: 0o755}, busybox)
	for _, applet := range []string{"sh", "sleep", "stat", "ls", "test"} {
		add(tar.Header{Name: "rootfs/bin/" + applet, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil)
	}
	add(tar.Header{Name: "rootfs/sbin/init", Mode: 0o755}, begin)
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(h.dir+"/image.tar", b.Bytes(), 0o644))
	h.run("config: {}\nstorage_pools: [{name: default, driver: dir}]\nprofiles: [{name: default, devices: {root: {type: disk, path: /, pool: default}}}]\n", "lxd", "init", "--preseed")
	h.run("", "lxc", "image", "import", h.dir+"/image.tar", "--alias", "tiny")
	h.run("", "lxc", "launch", "-q", "tiny", name)
}

// lxcGroups lists the control groups that LXC makes and leaves.
func lxcGroups(t *testing.T) (found []string) {
	t.Helper()
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if os.IsNotExist(err) { // it went while we looked
			return nil
		}
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), "lxc.") {
			found = append(found, path)
		}
		return err
	})
	require.NoError(t, err)
	return found
}

// removeGroups removes those that came since, deepest first.
func removeGroups(t *testing.T, before []string) {
	t.Helper()
	all := lxcGroups(t)
	for _, top := range all {
		if slices.Contains(before, top) {
			continue
		}
		var dirs []string
		err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // what is gone is gone
		})
		require.NoError(t, err)
		for _, dir := range slices.Backward(dirs) {
			if err := os.Remove(dir); err != nil && !os.IsNotExist(err) {
				t.Errorf("cannot remove %s: %v", dir, err)
			}
		}
	}
}
