package hooks

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// A killer ends dispatch at its k-th call that counts: kill -9, as a machine that loses
// its power.
type killer struct {
	when   string
	counts func(argv []string, after bool) bool
}

var killers = []killer{
	// The status of each step, and of each stage of a long one, is set right
	// before it.
	{beforeStep, func(argv []string, after bool) bool {
		return !after && argv[0] == "status-set" && argv[2] == "maintenance"
	}},
	{"before command", func(argv []string, after bool) bool { return !after && changesUnits(argv) }},
	// systemd has carried it out, but dispatch never hears of it.
	{"after command", func(argv []string, after bool) bool { return after && changesUnits(argv) }},
}

const beforeStep = "before step"

func changesUnits(argv []string) bool { return argv[0] == "systemctl" && argv[1] != "show" }

// arm has the killer wait for its call.
func (u *unit) arm(k killer, at int) {
	n := 0
	u.Kill = func(argv []string, after bool) bool {
		if k.counts(argv, after) {
			n++
		}
		return n == at && k.counts(argv, after)
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
	f := newUnit
	if u.processes {
		f = processUnit
	}
	return u.copyTo(f(t, t.TempDir(), nil))
}

func (u *unit) copyTo(f *unit) *unit {
	port := f.read("/etc/default/concourse")
	require.NoError(u.t, copyTree(string(u.Root), string(f.Root)))
	require.NoError(u.t, f.Root.WriteFile("/etc/default/concourse", []byte(port), 0o644))
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
			u.Model.Resources["concourse-release"] = releaseTarball("8.2.6")
			u.set(options{"version": "8.2.6"})
		}, hook("upgrade-charm"), 3},
		{"GPUs not wanted any more", ready, func(u *unit) { u.set(options{"compute-runtime": "none"}) }, hook("config-changed"), 6},
		{"relation broken", ready, func(*unit) {}, flight("broken", ""), 5},
		{"stop", ready, nil, hook("stop"), 5},
		{"remove", ready, nil, hook("remove"), 10},
	})
}

// A process that the kernel kills leaves what a run that is still does.
func TestProcessKilledAnywhereConverges(t *testing.T) {
	t.Parallel()
	ready := func(t *testing.T) *unit {
		u := processUnit(t, fixture("amd"), options{"compute-runtime": "rocm", "amd-container-toolkit": "skip"})
		u.works()
		return u
	}
	killedAnywhere(t, []killCase{
		{"new tag", ready, func(u *unit) { u.set(options{"tag": "big"}) }, func(u *unit) (sandbox.Result, error) { return u.Hook("config-changed") }, 0},
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
				if base.processes && k.when == beforeStep {
					continue // a process is killed at commands alone
				}
				kills := -1
				for killed := true; killed; kills++ {
					t.Run(fmt.Sprintf("%s %d", k.when, kills+2), func(t *testing.T) {
						killed = converges(t, base.fork(t), tt.hook, k, kills+2, calm, first, want)
					})
				}
				if k.when == beforeStep {
					require.GreaterOrEqual(t, kills, tt.steps)
				} else {
					require.Equal(t, len(slices.DeleteFunc(slices.Clone(first.Commands), func(c string) bool { return !strings.HasPrefix(c, "systemctl ") })), kills)
				}
			}
		})
	}
}

// converges kills the hook at a call and runs it again; false reports that it ended before
// there was such a call.
func converges(t *testing.T, u *unit, hook func(*unit) (sandbox.Result, error), k killer, at int, calm *unit, first sandbox.Result, want map[string]string) bool {
	t.Helper()
	local := locals(u)
	u.arm(k, at)
	killed, err := hook(u)
	u.Kill = nil
	require.NoError(t, err)
	if killed.Code == 0 {
		return false
	}
	where := fmt.Sprintf("killed %s %d: %v", k.when, at, killed.Statuses)
	require.Equal(t, sandbox.Killed, killed.Code, where+killed.Output)
	require.Equal(t, local, locals(u), where)
	again, err := hook(u)
	u.fine(where, again, err)
	require.Empty(t, differences(want, tree(u, "/etc", "/opt", "/run", "/var")), where)
	require.Equal(t, first.Status(), again.Status(), where)
	for _, name := range units {
		require.Equal(t, calm.Machine.Up(name), u.Machine.Up(name), where)
	}
	// What systemd must be reported it is reported, if not before, then now. (A unit that
	// has ended need not be stopped.)
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
