//go:build e2e

package concourse

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/host/hosttest"
	"concourse-ci-machine/internal/juju/jujutest"
	"concourse-ci-machine/internal/sandbox"
)

// unit is a World with a machine: dispatch runs in the machine's network, and
// its systemctl and journalctl are answered by the machine's process 1.
type unit struct {
	*sandbox.World
	t       *testing.T
	machine *exec.Cmd
}

// users are those of a fresh machine, and the web's: making it is shown in
// tests/web, and here it has to be there before the machine is.
const (
	users = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n" +
		"concourse:x:990:990::/var/lib/concourse:/usr/sbin/nologin\n"
	groups = "root:x:0:\nvideo:x:44:\nrender:x:992:\nnogroup:x:65534:\nconcourse:x:990:\n"
)

// newWorld is unit n of the application with the hardware of a fixture host,
// and no machine.
func newWorld(t *testing.T, n int, hardware, release string) *unit {
	t.Helper()
	w, err := sandbox.New(sandbox.Options{Host: filepath.Join(hosttest.HostsDir(), hardware), Charm: charmDir(), Exe: tools(),
		Unit: fmt.Sprintf("concourse-ci-machine/%d", n)})
	require.NoError(t, err)
	u := &unit{World: w, t: t}
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	w.Model.Resources = map[string]string{"concourse-release": release}
	w.Model.Address = fmt.Sprintf("10.99.0.%d", 10+n)
	w.Model.Leader = n == 0
	standIns(t, w.Root)
	return u
}

// newUnit is one with a machine that runs.
func newUnit(t *testing.T, n int, hardware, release string) *unit {
	t.Helper()
	u := newWorld(t, n, hardware, release)
	w := u.World
	for path, text := range map[string]string{"/etc/passwd": users, "/etc/group": groups, "/etc/default/concourse": ""} {
		require.NoError(t, w.Root.WriteFile(path, []byte(text), 0o644))
	}
	for _, dir := range given {
		require.NoError(t, w.Root.MkdirAll(dir, 0o755))
	}
	for _, name := range systemdTools {
		tool := filepath.Join(w.Dir, "tools", name)
		require.NoError(t, os.Remove(tool))
		exe, err := os.Executable()
		require.NoError(t, err)
		require.NoError(t, os.Symlink(exe, tool))
	}
	require.NoError(t, os.Remove(filepath.Join(w.Dir, "tools", "ss"))) // connections are ended for real
	u.boot()
	return u
}

// boot starts the machine and connects it to the others.
func (u *unit) boot() {
	u.t.Helper()
	u.machine = exec.Command("/proc/self/exe")
	u.machine.Env = append(os.Environ(), machineEnv+"="+u.Dir)
	var said strings.Builder
	u.machine.Stdout, u.machine.Stderr = &said, &said
	in, err := u.machine.StdinPipe()
	require.NoError(u.t, err)
	u.machine.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID |
		syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP}
	require.NoError(u.t, u.machine.Start())
	u.t.Cleanup(func() {
		if u.t.Failed() {
			u.t.Logf("%s says at last:\n%s", u.Model.Unit, u.lastWords())
		}
		u.machine.Process.Kill() // and with it all of the machine's processes
		u.machine.Wait()
		if u.t.Failed() {
			u.t.Log(said.String())
		}
	})
	veth := fmt.Sprintf("veth%d", u.machine.Process.Pid)
	require.NoError(u.t, command("ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(u.machine.Process.Pid)))
	require.NoError(u.t, command("ip", "link", "set", veth, "master", "br0", "up"))
	_, err = fmt.Fprintln(in, u.Model.Address)
	require.NoError(u.t, err)
	until(u.t, func() bool {
		conn, err := net.Dial("unix", socketOf(u.Dir))
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, "the machine does not start: %s", &said)
}

// inside does something in the machine's network, as dispatch is on its machine.
func (u *unit) inside(do func()) {
	u.t.Helper()
	if u.machine == nil {
		do()
		return
	}
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this function
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", u.machine.Process.Pid))
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			do()
		}
		failed <- err
	}()
	require.NoError(u.t, <-failed)
}

func (u *unit) fine(name string, r sandbox.Result, err error) sandbox.Result {
	u.t.Helper()
	require.NoError(u.t, err, name)
	require.Zero(u.t, r.Code, "%s of %s: %s\n%s", name, u.Model.Unit, r.Output, logText(r.Logs))
	return r
}

func logText(lines []jujutest.LogLine) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%s %s\n", l.Level, l.Message)
	}
	return b.String()
}

func (u *unit) hook(name string) (r sandbox.Result) {
	u.t.Helper()
	var err error
	u.inside(func() { r, err = u.Hook(name) })
	return u.fine(name, r, err)
}

// act runs an action.
func (u *unit) act(name string, params map[string]any) (r sandbox.Result, err error) {
	u.t.Helper()
	u.inside(func() { r, err = u.Action(name, params) })
	return r, err
}

// action runs an action that has to succeed.
func (u *unit) action(name string, params map[string]any) map[string]any {
	u.t.Helper()
	r, err := u.act(name, params)
	u.fine(name, r, err)
	require.Equal(u.t, "completed", r.Action.Status, "%s: %s\n%s", name, r.Action.Message, logText(r.Logs))
	return r.Action.Results
}

func (u *unit) status() string {
	s := u.Model.Status()
	return s.Status + ": " + s.Message
}

// said is the journal of a unit of systemd.
func (u *unit) said(name string) string {
	files, err := filepath.Glob(filepath.Join(u.Dir, "log", name+".service.*"))
	require.NoError(u.t, err)
	var b strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(u.t, err)
		b.Write(data)
	}
	return b.String()
}

// invocations is how often the web was started.
func (u *unit) invocations() int {
	files, err := filepath.Glob(filepath.Join(u.Dir, "log", "concourse-server.service.*"))
	require.NoError(u.t, err)
	return len(files)
}

// lastWords are the ends of all journals.
func (u *unit) lastWords() string {
	var b strings.Builder
	for _, name := range []string{"concourse-server", "concourse-worker", "concourse-pebble"} {
		var lines []string
		for sc := bufio.NewScanner(strings.NewReader(u.said(name))); sc.Scan(); {
			lines = append(lines, sc.Text())
		}
		fmt.Fprintf(&b, "%s:\n%s\n", name, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	for _, s := range u.Model.Statuses {
		fmt.Fprintf(&b, "%s: %s\n", s.Status, s.Message)
	}
	return b.String()
}

// state is what systemctl shows of a unit of systemd: active, inactive...
func (u *unit) state(name string) string {
	a, err := ask(socketOf(u.Dir), []string{"systemctl", "show", name})
	require.NoError(u.t, err)
	for line := range strings.Lines(a.Stdout) {
		if state, ok := strings.CutPrefix(strings.TrimSpace(line), "ActiveState="); ok {
			return state
		}
	}
	return ""
}

// systemctl is a person at the machine.
func (u *unit) systemctl(args ...string) {
	u.t.Helper()
	a, err := ask(socketOf(u.Dir), append([]string{"systemctl"}, args...))
	require.NoError(u.t, err)
	require.Zero(u.t, a.Code, a.Stderr)
}
