//go:build e2e

package concourse

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/testutil/hosttest"
	"concourse-ci-machine/internal/testutil/jujutest"
	"concourse-ci-machine/internal/testutil/sandbox"
)

// unit is a World with a machine: its root is the machine's, and dispatch runs
// on it.
type unit struct {
	*sandbox.World
	t       *testing.T
	machine *exec.Cmd // its process 1
	shifted bool      // in a user namespace
}

// charmName is the application of most units.
const charmName = "concourse-ci-machine"

// newWorld returns unit n of an application with the hardware of a fixture host,
// and no machine.
func newWorld(t *testing.T, app string, n int, hardware, release string) *unit {
	t.Helper()
	w, err := sandbox.New(sandbox.Options{Host: filepath.Join(hosttest.HostsDir(), hardware), Charm: charmDir(), Exe: tools(),
		Unit: fmt.Sprintf("%s/%d", app, n)})
	require.NoError(t, err)
	u := &unit{World: w, t: t}
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	w.Model.Resources = map[string]string{"concourse-release": release}
	w.Model.Address = fmt.Sprintf("10.99.0.%d", 10+n)
	w.Model.Leader = n == 0
	standIns(t, w.Root)
	return u
}

// newUnit is one with a machine that runs: shifted, in a user namespace as LXD's
// containers are. What changes its machine is called before that starts.
func newUnit(t *testing.T, n int, hardware, release string, shifted bool, changes ...func(*unit)) *unit {
	t.Helper()
	return newUnitOf(t, charmName, n, hardware, release, shifted, changes...)
}

// newUnitOf is newUnit for an application of another name. No two units have the same n.
func newUnitOf(t *testing.T, app string, n int, hardware, release string, shifted bool, changes ...func(*unit)) *unit {
	t.Helper()
	u := newWorld(t, app, n, hardware, release)
	u.shifted = shifted
	require.NoError(t, u.Root.WriteFile("/etc/default/concourse", nil, 0o644))
	// systemd mounts a proc of its own for a service whose hostname it protects.
	require.NoError(t, u.Root.WriteFile("/usr/lib/systemd/system/concourse-cdi-refresh.service.d/fixture.conf",
		[]byte("[Service]\nBindReadOnlyPaths="+u.fake().Path("/proc/devices")+":/proc/devices\n"), 0o644))
	for _, name := range []string{"systemctl", "journalctl", "useradd", "ss", "update-ca-certificates"} { // the machine has real ones
		require.NoError(t, os.Remove(filepath.Join(u.Dir, "tools", name)))
	}
	u.Start = u.enter
	u.makeRoot()
	for _, change := range changes {
		change(u)
	}
	u.boot()
	return u
}

// boot starts the machine, connects it to the others and waits until it is up.
func (u *unit) boot() {
	u.t.Helper()
	u.machine = exec.Command("/proc/self/exe")
	u.machine.Env = append(os.Environ(), machineEnv+"=1")
	var said strings.Builder
	u.machine.Stdout, u.machine.Stderr = &said, &said
	in, err := u.machine.StdinPipe()
	require.NoError(u.t, err)
	attr := &syscall.SysProcAttr{}
	if u.shifted {
		attr = userNamespace()
	}
	attr.Cloneflags |= syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	group := filepath.Join(groups, filepath.Base(u.Dir))
	require.NoError(u.t, os.Mkdir(group, 0o755))
	if u.shifted {
		u.chown(group)
	}
	fd, err := os.Open(group)
	require.NoError(u.t, err)
	defer fd.Close()
	attr.UseCgroupFD, attr.CgroupFD = true, int(fd.Fd())
	u.machine.SysProcAttr = attr
	require.NoError(u.t, u.machine.Start())
	t := u.t // that of the unit: steps have their own
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s says at last:\n%s", u.Model.Unit, u.lastWords())
		}
		u.machine.Process.Kill() // and with it all of the machine's processes
		u.machine.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	veth := fmt.Sprintf("veth%d", u.machine.Process.Pid)
	require.NoError(u.t, command("ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(u.machine.Process.Pid)))
	require.NoError(u.t, command("ip", "link", "set", veth, "master", "br0", "up"))
	require.NoError(u.t, json.NewEncoder(in).Encode(machine{Root: string(u.Root), Fake: string(u.fake()), Address: u.Model.Address}))
	until(u.t, func() bool {
		out, _ := u.run("systemctl is-system-running") // it fails until systemd answers
		return out == "running" || out == "degraded"
	}, "the machine does not start: %s", &said)
	require.Empty(u.t, u.must("systemctl --failed --no-legend"))
}

// systemPath is what systemd gives its services.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// enter has dispatch start on the machine, as Juju's agent would.
func (u *unit) enter(c *exec.Cmd) {
	// Juju's stand-in opens the files that hook tools are given.
	env := []string{"--chdir=" + c.Dir, "TMPDIR=" + filepath.Join(u.Dir, "tmp")}
	for _, kv := range c.Env {
		if name, value, _ := strings.Cut(kv, "="); name == "PATH" {
			env = append(env, "PATH="+filepath.Join(u.Dir, "tools")+":"+systemPath)
		} else if name != "CHARM_ROOT" {
			env = append(env, name+"="+value)
		}
	}
	in := exec.Command("nsenter", slices.Concat(u.namespaces(), []string{"/usr/bin/env", "-"}, env, c.Args)...)
	c.Path, c.Args, c.Dir, c.Err = in.Path, in.Args, "", in.Err
}

// namespaces are the arguments by which nsenter finds the machine.
func (u *unit) namespaces() []string {
	all := []string{"--target", fmt.Sprint(u.machine.Process.Pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"}
	if u.shifted {
		all = append(all, "--user")
	}
	return append(all, "--")
}

// run runs a shell line on the machine.
func (u *unit) run(line string) (string, error) {
	out, err := exec.Command("nsenter", append(u.namespaces(), "/usr/bin/env", "-", "PATH="+systemPath, "/bin/sh", "-c", line)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// must is run for what has to succeed.
func (u *unit) must(line string) string {
	u.t.Helper()
	out, err := u.run(line)
	require.NoError(u.t, err, "%s: %s", line, out)
	return out
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

func (u *unit) hook(name string) sandbox.Result {
	u.t.Helper()
	r, err := u.Hook(name)
	return u.fine(name, r, err)
}

// act runs an action.
func (u *unit) act(name string, params map[string]any) (sandbox.Result, error) {
	return u.Action(name, params)
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
	u.t.Helper()
	return u.must("journalctl --quiet --output=cat --unit=" + name)
}

// show is a property of a unit of systemd.
func (u *unit) show(name, property string) string {
	u.t.Helper()
	return u.must("systemctl show --value --property=" + property + " " + name)
}

// lastWords are the ends of all journals.
func (u *unit) lastWords() string {
	out, _ := u.run("systemctl --failed --no-legend; for u in concourse-server concourse-worker concourse-pebble init.scope; do echo $u:; journalctl --quiet --lines=15 --output=cat --unit=$u; done")
	for _, s := range u.Model.Statuses {
		out += fmt.Sprintf("\n%s: %s", s.Status, s.Message)
	}
	return out
}

// state is active, inactive...
func (u *unit) state(name string) string { return u.show(name, "ActiveState") }
