//go:build e2e

package concourse

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// unit is a World with a machine: its root is the machine's, and dispatch runs
// on it.
type unit struct {
	*sandbox.World
	t       *testing.T
	guest   *guest.Guest
	shifted bool // in a user namespace
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

// base is the Debian that is below all machines' roots.
var base = sync.OnceValues(func() (string, error) {
	ctx := context.Background() // it ends with this program
	file, err := debian.Base(ctx)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(built, "debian")
	if err := debian.Unpack(ctx, file, dir); err != nil {
		return "", err
	}
	return dir, guest.Prepare(dir)
})

// makeRoot puts a Debian below the World's root, which has the charm and its tools, and the
// sockets of these.
func (u *unit) makeRoot() {
	t := u.t // of the unit: steps have their own
	t.Helper()
	lower, err := base()
	require.NoError(t, err)
	u.guest = &guest.Guest{Dir: u.Dir, Root: u.Root, Lower: lower, Groups: groups, Address: u.Model.Address,
		Shared: []string{built}, Shifted: u.shifted}
	t.Cleanup(func() { require.NoError(t, u.guest.Unmount()) })
	require.NoError(t, u.guest.MakeRoot())
	if u.shifted {
		for _, socket := range []string{"juju.sock", "machine.sock"} {
			require.NoError(t, os.Chmod(filepath.Join(u.Dir, socket), 0o777))
		}
	}
}

// fake has the files of the fixture host that a kernel would show.
func (u *unit) fake() host.Root { return u.guest.Fake() }

// freeMemory frees the memory of the GPUs, which the status otherwise names from some look on.
func (u *unit) freeMemory() {
	u.t.Helper()
	files, err := u.fake().Glob("/sys/class/drm/renderD*/device/mem_info_vram_used")
	require.NoError(u.t, err)
	require.NotEmpty(u.t, files)
	for _, file := range files {
		require.NoError(u.t, os.WriteFile(u.fake().Path(file), []byte("0\n"), 0o644))
	}
}

// mount mounts a file system until the unit's test ends.
func (u *unit) mount(source, target, kind string, flags uintptr, data string) {
	u.t.Helper()
	t := u.t // of the unit, not of a step
	require.NoError(t, unix.Mount(source, target, kind, flags, data), "%s on %s", source, target)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(target, unix.MNT_DETACH), target) })
}

// boot starts the machine, connects it to the others and waits until it is up.
func (u *unit) boot() {
	u.t.Helper()
	var said strings.Builder
	u.guest.Log = &said
	t := u.t // of the unit: steps have their own
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s says at last:\n%s", u.Model.Unit, u.lastWords())
		}
		u.guest.Kill() // and with it all of the machine's processes
		if t.Failed() {
			t.Log(said.String())
		}
	})
	require.NoError(t, u.guest.Boot(t.Context()))
}

// enter has dispatch start on the machine, as Juju's agent would.
func (u *unit) enter(c *exec.Cmd) {
	// Juju's stand-in opens the files that hook tools are given.
	env := []string{"--chdir=" + c.Dir, "TMPDIR=" + filepath.Join(u.Dir, "tmp")}
	for _, kv := range c.Env {
		if name, value, _ := strings.Cut(kv, "="); name == "PATH" {
			env = append(env, "PATH="+filepath.Join(u.Dir, "tools")+":"+guest.Path)
		} else if name != "CHARM_ROOT" {
			env = append(env, name+"="+value)
		}
	}
	argv := u.guest.Enter(env, c.Args...)
	in := exec.Command(argv[0], argv[1:]...)
	c.Path, c.Args, c.Dir, c.Err = in.Path, in.Args, "", in.Err
}

// run runs a shell line on the machine.
func (u *unit) run(line string) (string, error) { return u.guest.Run(line) }

// must is run for what must succeed.
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

// action runs an action that must succeed.
func (u *unit) action(name string, params map[string]any) map[string]any {
	u.t.Helper()
	r, err := u.act(name, params)
	u.fine(name, r, err)
	require.Equal(u.t, "completed", r.Action.Status, "%s: %s\n%s", name, r.Action.Message, logText(r.Logs))
	return r.Action.Results
}

// checks returns the lines of check-status.
func (u *unit) checks() string {
	u.t.Helper()
	r, err := u.act("check-status", nil)
	u.fine("check-status", r, err)
	return fmt.Sprint(r.Action.Results["checks"])
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
