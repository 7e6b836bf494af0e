//go:build e2e

package lxd

import (
	"bytes"
	"context"
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

// patience bounds each wait and each command.
const patience = time.Minute

// daemon is one private LXD on a host of its own.
type daemon struct {
	t    *testing.T
	dir  string // everything it writes
	host *exec.Cmd
	init int // the host's first process, as this machine numbers it
	ns   string
}

// start brings the daemon up and has it stopped at the end of the test, also
// when that fails or the test program dies. setting is what testdata/host.sh
// is told: KEY=value.
func start(t *testing.T, setting ...string) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "lxd-e2e-") // short: its socket's path has a limit of 107 bytes
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711)) // the container's root, no user of this machine, has to pass
	d := &daemon{t: t, dir: dir}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	script, err := filepath.Abs("testdata/host.sh")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(dir+"/lxd", 0o711))

	var out bytes.Buffer
	d.host = exec.Command("unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork",
		"--kill-child", "--propagation", "private", "--mount-proc", "sh", script)
	d.host.Env = append(append(os.Environ(), "LXD_DIR="+dir+"/lxd"), setting...)
	d.host.Stdout, d.host.Stderr, d.host.WaitDelay = &out, &out, patience
	// The signal comes when the thread that started it ends, hence the lock.
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	d.host.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, d.host.Start())
	t.Cleanup(func() {
		d.stop()
		if t.Failed() {
			t.Logf("daemon: %s", out.String())
		}
	})
	d.run("", "lxd", "waitready", "--timeout", strconv.Itoa(int(patience.Seconds())))
	d.init = d.firstProcess()
	require.NotZero(t, d.init, out.String())
	d.ns, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", d.init))
	require.NoError(t, err)
	return d
}

// sub runs a subtest that uses the daemon. The later ones build on it, so its
// failure ends the test.
func (d *daemon) sub(t *testing.T, name string, f func(t *testing.T)) {
	ok := t.Run(name, func(s *testing.T) {
		d.t = s
		defer func() { d.t = t }()
		f(s)
	})
	if !ok {
		t.FailNow()
	}
}

// stop kills the host's first process; the kernel takes all others of its
// process namespace with it, and unshare ends.
func (d *daemon) stop() {
	if d.host.ProcessState != nil {
		return
	}
	pid := d.firstProcess()
	if pid == 0 { // it never came that far
		pid = d.host.Process.Pid
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		d.t.Errorf("cannot stop the daemon: %v", err)
	}
	late := time.AfterFunc(patience, func() { d.host.Process.Kill() })
	defer late.Stop()
	d.host.Wait() // its error is that it was killed
	require.Eventually(d.t, func() bool { return len(d.processes()) == 0 }, patience, 20*time.Millisecond)
}

// firstProcess is the one child of unshare, 0 when it has none.
func (d *daemon) firstProcess() int {
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

// processes are those in the host's process namespace, or below it.
func (d *daemon) processes() (found []string) {
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid_for_children")
	require.NoError(d.t, err)
	for _, link := range links {
		if ns, err := os.Readlink(link); err == nil && d.ns != "" && ns == d.ns {
			found = append(found, link)
		}
	}
	return found
}

// try runs a command against the daemon and returns its output.
func (d *daemon) try(stdin string, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env = d.env()
	c.Stdin, c.WaitDelay = strings.NewReader(stdin), time.Second
	out, err := c.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// env is the environment of what talks to the daemon.
func (d *daemon) env() []string {
	return append(os.Environ(), "LXD_DIR="+d.dir+"/lxd", "LXD_CONF="+d.dir+"/client", "HOME="+d.dir)
}

// command is one that is started by its caller.
func (d *daemon) command(argv ...string) *exec.Cmd {
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = d.env()
	return c
}

func (d *daemon) run(stdin string, argv ...string) string {
	d.t.Helper()
	out, err := d.try(stdin, argv...)
	require.NoError(d.t, err, "%s: %s", strings.Join(argv, " "), out)
	return out
}

// onHost runs a command where the daemon sees its devices.
func (d *daemon) onHost(argv ...string) string {
	d.t.Helper()
	return d.run("", append([]string{"nsenter", "-t", strconv.Itoa(d.init), "-m", "-p"}, argv...)...)
}

// inside runs a shell line in a container.
func (d *daemon) inside(container, line string) (string, error) {
	return d.try("", "lxc", "exec", container, "--", "/bin/sh", "-c", line)
}
