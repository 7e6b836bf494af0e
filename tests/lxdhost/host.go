package lxdhost

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Patience bounds each wait and each command.
const Patience = time.Minute

var (
	//go:embed host.sh
	hostScript []byte
	//go:embed gpus.sh
	gpusScript []byte
)

// Host is one private LXD on its own host.
type Host struct {
	T    *testing.T // of the subtest that runs
	Dir  string     // everything it writes
	Init int        // the host's first process, as this machine numbers it
	host *exec.Cmd
	ns   string
}

// Start provides the daemon up and has it stopped at the end of the test, also when that
// fails or the test program dies. gpus is the tree of FakeGPUs that the host has, with the
// unified hierarchy of control groups alone, or "".
func Start(t *testing.T, gpus string) *Host {
	t.Helper()
	dir, err := os.MkdirTemp("", "lxd-e2e-") // short: its socket's path has a limit of 107 bytes
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711)) // the container's root, no user of this machine, must pass
	d := &Host{T: t, Dir: dir}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.WriteFile(dir+"/host.sh", hostScript, 0o600))
	require.NoError(t, os.Mkdir(dir+"/lxd", 0o711))
	setting := []string{"LXD_DIR=" + dir + "/lxd"}
	if gpus != "" {
		require.NoError(t, os.WriteFile(dir+"/gpus.sh", gpusScript, 0o600))
		setting = append(setting, "GPUS="+dir+"/gpus.sh", "FAKE="+gpus, "CGROUP=2")
	}

	var out bytes.Buffer
	d.host = exec.Command("unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork",
		"--kill-child", "--propagation", "private", "--mount-proc", "sh", dir+"/host.sh")
	d.host.Env = append(os.Environ(), setting...)
	d.host.Stdout, d.host.Stderr, d.host.WaitDelay = &out, &out, Patience
	// The signal comes when the thread that started it ends, hence the lock.
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	d.host.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, d.host.Start())
	t.Cleanup(func() {
		d.Stop()
		if t.Failed() {
			t.Logf("daemon: %s", out.String())
		}
	})
	d.Run("", "lxd", "waitready", "--timeout", strconv.Itoa(int(Patience.Seconds())))
	d.Init = d.firstProcess()
	require.NotZero(t, d.Init, out.String())
	d.ns, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", d.Init))
	require.NoError(t, err)
	return d
}

// Sub runs a subtest that uses the daemon. The later ones build on it, so its
// failure ends the test.
func (d *Host) Sub(t *testing.T, name string, f func(t *testing.T)) {
	ok := t.Run(name, func(s *testing.T) {
		d.T = s
		defer func() { d.T = t }()
		f(s)
	})
	if !ok {
		t.FailNow()
	}
}

// Stop kills the host's first process; the kernel takes all others of its
// process namespace with it, and unshare ends.
func (d *Host) Stop() {
	if d.host.ProcessState != nil {
		return
	}
	pid := d.firstProcess()
	if pid == 0 { // it never came that far
		pid = d.host.Process.Pid
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		d.T.Errorf("cannot stop the daemon: %v", err)
	}
	late := time.AfterFunc(Patience, func() { d.host.Process.Kill() })
	defer late.Stop()
	d.host.Wait() // its error is that it was killed
	require.Eventually(d.T, func() bool { return len(d.Processes()) == 0 }, Patience, 20*time.Millisecond)
}

// firstProcess is the one child of unshare, 0 when it has none.
func (d *Host) firstProcess() int {
	pid := d.host.Process.Pid
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(list)))
	if err != nil {
		return 0
	}
	return child
}

// Processes are those in the host's process namespace, or below it.
func (d *Host) Processes() (found []string) {
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid_for_children")
	require.NoError(d.T, err)
	for _, link := range links {
		if ns, err := os.Readlink(link); err == nil && d.ns != "" && ns == d.ns {
			found = append(found, link)
		}
	}
	return found
}

// Try runs a command against the daemon and returns its output.
func (d *Host) Try(stdin string, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env = d.Env()
	c.Stdin, c.WaitDelay = strings.NewReader(stdin), time.Second
	out, err := c.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// Env is the environment of what talks to the daemon.
func (d *Host) Env() []string {
	return append(os.Environ(), "LXD_DIR="+d.Dir+"/lxd", "LXD_CONF="+d.Dir+"/client", "HOME="+d.Dir)
}

// Command is one that is started by its caller.
func (d *Host) Command(argv ...string) *exec.Cmd {
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = d.Env()
	return c
}

func (d *Host) Run(stdin string, argv ...string) string {
	d.T.Helper()
	out, err := d.Try(stdin, argv...)
	require.NoError(d.T, err, "%s: %s", strings.Join(argv, " "), out)
	return out
}

// OnHost runs a command with the daemon's devices and network.
func (d *Host) OnHost(argv ...string) string {
	d.T.Helper()
	return d.Run("", append([]string{"nsenter", "-t", strconv.Itoa(d.Init), "-m", "-n", "-p"}, argv...)...)
}

// Inside runs a shell line in a container.
func (d *Host) Inside(container, line string) (string, error) {
	return d.Try("", "lxc", "exec", container, "--", "/bin/sh", "-c", line)
}
