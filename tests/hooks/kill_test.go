package hooks

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/sandbox"
)

// A killer stands in front of a command and ends dispatch, which called it, at
// its k-th call that counts: kill -9, as a machine that loses its power.
type killer struct{ when, tool, script string }

var killers = []killer{
	// The status of each step, and of each stage of a long one, is set right
	// before it.
	{"before step", "status-set", `#!/bin/sh
[ "$2" = maintenance ] && read -r n <"$DIR/calls" && echo $((n + 1)) >"$DIR/calls" && [ $n -eq $AT ] && kill -9 $PPID && exit 1
exec "$DIR/status-set" "$@"
`},
	{"before command", "systemctl", `#!/bin/sh
[ "$1" != show ] && read -r n <"$DIR/calls" && echo $((n + 1)) >"$DIR/calls" && [ $n -eq $AT ] && kill -9 $PPID && exit 1
exec "$DIR/systemctl" "$@"
`},
	// systemd has carried it out, but dispatch never hears of it.
	{"after command", "systemctl", `#!/bin/sh
"$DIR/systemctl" "$@" || exit
[ "$1" != show ] && read -r n <"$DIR/calls" && echo $((n + 1)) >"$DIR/calls" && [ $n -eq $AT ] && kill -9 $PPID
exit 0
`},
}

// arm sets the killer in place of its tool; disarm takes it away.
func (u *unit) arm(k killer, at int) (disarm func()) {
	u.t.Helper()
	dir, path := filepath.Join(u.Dir, "killer"), filepath.Join(u.Dir, "tools", k.tool)
	require.NoError(u.t, os.Mkdir(dir, 0o755))
	require.NoError(u.t, os.WriteFile(filepath.Join(dir, "calls"), []byte("1\n"), 0o644))
	require.NoError(u.t, os.Rename(path, filepath.Join(dir, k.tool)))
	require.NoError(u.t, os.WriteFile(path, []byte(strings.NewReplacer("$DIR", dir, "$AT", fmt.Sprint(at)).Replace(k.script)), 0o755))
	return func() {
		require.NoError(u.t, os.Rename(filepath.Join(dir, k.tool), path))
		require.NoError(u.t, os.RemoveAll(dir))
	}
}

const (
	webUnit    = "concourse-server.service"
	workerUnit = "concourse-worker.service"
)

var units = []string{webUnit, workerUnit, "concourse-pebble.service"}

// start starts a service as an operator would.
func (u *unit) start(name string) {
	u.t.Helper()
	u.systemctl("enable", name)
	u.systemctl("start", name)
}

// fork is another unit in the same state.
func (u *unit) fork(t *testing.T) *unit {
	t.Helper()
	f := newUnit(t, t.TempDir(), nil)
	port := f.read("/etc/default/concourse")
	// With owners, modes and dates.
	out, err := exec.Command("cp", "-a", string(u.Root)+"/.", string(f.Root)).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, f.Root.WriteFile("/etc/default/concourse", []byte(port), 0o644))
	for _, name := range units {
		if u.Machine.Up(name) {
			f.start(name)
		}
	}
	f.Model.Config, f.Model.Resources, f.Model.Leader = maps.Clone(u.Model.Config), maps.Clone(u.Model.Resources), u.Model.Leader
	for _, r := range u.Model.Relations {
		c := *r
		c.Local, c.LocalApp = maps.Clone(r.Local), maps.Clone(r.LocalApp)
		f.Model.Relations = append(f.Model.Relations, &c)
	}
	for _, s := range u.Model.Secrets {
		c := *s
		c.Revisions = slices.Clone(s.Revisions)
		f.Model.Secrets = append(f.Model.Secrets, &c)
	}
	f.Model.Ports = slices.Clone(u.Model.Ports)
	return f
}

func TestRunKilledAnywhereConverges(t *testing.T) {
	t.Parallel()
	hook := func(name string) func(*unit) (sandbox.Result, error) {
		return func(u *unit) (sandbox.Result, error) { return u.Hook(name) }
	}
	flight := func(kind, remote string) func(*unit) (sandbox.Result, error) {
		return func(u *unit) (sandbox.Result, error) { return u.RelationHook(u.Model.Relations[0], kind, remote) }
	}
	fresh := func(t *testing.T) *unit {
		u := newUnit(t, fixture("amd"), nil)
		u.giveKey()
		return u
	}
	installed := func(t *testing.T) *unit {
		u := fresh(t)
		u.hook("install")
		return u
	}
	ready := func(t *testing.T) *unit { return worker(t, fixture("amd"), options{"compute-runtime": "rocm"}) }
	killedAnywhere(t, []killCase{
		{"install", fresh, nil, hook("install"), 15},
		{"no key", installed, func(u *unit) { require.NoError(u.t, u.Root.Remove("/var/lib/concourse-worker/keys/worker_key")) }, hook("start"), 1},
		{"GPUs wanted", installed, func(u *unit) { u.set(options{"compute-runtime": "rocm"}) }, hook("config-changed"), 14},
		{"related", installed, func(u *unit) { u.web() }, flight("changed", "web/0"), 5},
		{"new tag", ready, func(u *unit) { u.set(options{"tag": "big"}) }, hook("config-changed"), 2},
		{"new release", ready, func(u *unit) {
			u.Model.Resources["concourse-release"] = releaseTarball("8.3.0")
			u.set(options{"version": "8.3.0"})
		}, hook("upgrade-charm"), 3},
		{"GPUs not wanted any more", ready, func(u *unit) { u.set(options{"compute-runtime": "none"}) }, hook("config-changed"), 6},
		{"relation broken", ready, func(*unit) {}, flight("broken", ""), 5},
		{"stop", ready, nil, hook("stop"), 5},
		{"remove", ready, nil, hook("remove"), 10},
	})
}

// killCase is a hook on a unit in some state.
type killCase struct {
	name   string
	from   func(*testing.T) *unit
	change func(*unit)
	hook   func(*unit) (sandbox.Result, error)
	steps  int // at least
}

func killedAnywhere(t *testing.T, cases []killCase) {
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base := tt.from(t)
			if tt.change != nil {
				tt.change(base)
			}
			calm := base.fork(t)
			first, err := tt.hook(calm)
			calm.fine(tt.name, first, err)
			want := tree(calm, "/etc", "/opt", "/run", "/var")
			for _, k := range killers {
				kills := -1
				for killed := true; killed; kills++ {
					t.Run(fmt.Sprintf("%s %d", k.when, kills+2), func(t *testing.T) {
						killed = converges(t, base.fork(t), tt.hook, k, kills+2, calm, first, want)
					})
				}
				if k.tool == "status-set" {
					require.GreaterOrEqual(t, kills, tt.steps)
				} else {
					require.Equal(t, len(slices.DeleteFunc(slices.Clone(first.Commands), func(c string) bool { return !strings.HasPrefix(c, "systemctl ") })), kills)
				}
			}
		})
	}
}

// converges kills the hook at a call and runs it again; false says that it
// ended before there was such a call.
func converges(t *testing.T, u *unit, hook func(*unit) (sandbox.Result, error), k killer, at int, calm *unit, first sandbox.Result, want map[string]string) bool {
	t.Helper()
	local := locals(u)
	disarm := u.arm(k, at)
	killed, err := hook(u)
	disarm()
	require.NoError(t, err)
	if killed.Code == 0 {
		return false
	}
	where := fmt.Sprintf("killed %s %d: %v", k.when, at, killed.Statuses)
	require.Equal(t, -1, killed.Code, where+killed.Output)
	require.Equal(t, local, locals(u), where)
	again, err := hook(u)
	u.fine(where, again, err)
	require.Empty(t, differences(want, tree(u, "/etc", "/opt", "/run", "/var")), where)
	require.Equal(t, first.Status(), again.Status(), where)
	for _, name := range units {
		require.Equal(t, calm.Machine.Up(name), u.Machine.Up(name), where)
	}
	// What systemd has to be told it is told, if not before, then now. (A unit
	// that has ended need not be stopped.)
	done := append(slices.Clone(killed.Commands), again.Commands...)
	for _, c := range first.Commands {
		if verb, _, _ := strings.Cut(strings.TrimPrefix(c, "systemctl "), " "); verb != "stop" && verb != "kill" {
			require.Contains(t, done, strings.ReplaceAll(c, string(calm.Root), string(u.Root)), where)
		}
	}
	third, err := hook(u)
	u.fine(where, third, err)
	require.Empty(t, third.Plan(), where)
	return true
}

// locals are what the unit has published.
func locals(u *unit) (bags []map[string]string) {
	for _, r := range u.Model.Relations {
		bags = append(bags, maps.Clone(r.Local), maps.Clone(r.LocalApp))
	}
	return bags
}
