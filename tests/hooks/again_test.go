package hooks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// idle requires that a hook changed nothing: no step, no command, no file.
func idle(u *unit, name string, hook func() sandbox.Result) {
	u.t.Helper()
	before := tree(u, "/etc", "/opt", "/run", "/var")
	r := hook()
	require.Empty(u.t, r.Plan(), name)
	require.Empty(u.t, r.Commands, name)
	require.Empty(u.t, r.Logs, name)
	require.Len(u.t, r.Statuses, 1, "%s: %v", name, r.Statuses)
	require.Empty(u.t, differences(before, tree(u, "/etc", "/opt", "/run", "/var")), name)
}

func TestSecondRunOfEveryHookPlansNothing(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]options{
		"rocm":    {"compute-runtime": "rocm"},
		"no GPUs": {"compute-runtime": "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUnit(t, fixture("amd-nvidia"), set)
			u.giveKey()
			twice := func(name string, hook func() sandbox.Result) {
				hook()
				idle(u, name, hook)
			}
			plain := func(name string) { twice(name, func() sandbox.Result { return u.hook(name) }) }
			related := func(kind, remote string) {
				twice("flight-relation-"+kind, func() sandbox.Result { return u.flight(kind, remote) })
			}
			for _, name := range []string{"install", "config-changed", "start"} {
				plain(name)
			}
			flight := u.web()
			bags := flight.Units
			flight.Units = nil
			related("created", "")
			flight.Units = bags
			for _, kind := range []string{"joined", "changed"} {
				related(kind, "web/0")
			}
			for _, name := range []string{"update-status", "upgrade-charm", "leader-elected", "leader-settings-changed",
				"pre-series-upgrade", "post-series-upgrade", "a-hook-of-the-future"} {
				plain(name)
			}
			related("departed", "web/0")
			flight.Units = nil
			related("broken", "")
			u.Model.Relations = nil
			for _, name := range []string{"update-status", "stop", "remove"} {
				plain(name)
			}
		})
	}
}

func TestSecondRunPlansNothingOnEveryHost(t *testing.T) {
	t.Parallel()
	hosts := map[string]string{"64 GPUs": string(hosttest.ManyGPUs(t, 64))}
	for _, name := range hosttest.HostNames() {
		hosts[name] = fixture(name)
	}
	require.Greater(t, len(hosts), 10)
	for name, dir := range hosts {
		for _, runtime := range []string{"rocm", "auto"} {
			t.Run(name+"/"+runtime, func(t *testing.T) {
				t.Parallel()
				u := newUnit(t, dir, options{"compute-runtime": runtime})
				before := below(u)
				u.works()
				requireListed(t, before, below(u))
				for _, name := range []string{"config-changed", "update-status"} {
					idle(u, name, func() sandbox.Result { return u.hook(name) })
				}
			})
		}
	}
}

// The work of a hook that has nothing to do is what Juju's agent pays every
// five minutes on every unit.
func TestIdleHookAsksLittleAndAlwaysTheSame(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{fixture("no-gpu"), string(hosttest.ManyGPUs(t, 64))} {
		u := worker(t, dir, options{"compute-runtime": "rocm"})
		for range 3 {
			calls := u.hook("update-status").Calls
			require.Len(t, calls, 10, "%q", calls)
			require.Equal(t, []string{
				"config-get --format=json",
				"relation-ids --format=json flight",
				"relation-get --format=json -r flight:7 - " + unitName,
				"relation-list --format=json -r flight:7",
				"relation-get --format=json -r flight:7 - web/0",
				"relation-ids --format=json monitoring",
				"relation-ids --format=json tracing",
				"relation-ids --format=json cos-agent",
				"relation-ids --format=json receive-ca-certs",
			}, calls[:9])
			require.Contains(t, calls[9], "status-set -- ")
		}
	}
}

// D16: the predecessor restarted the worker in every relation hook. D17: in its peers'
// hooks, too. D46: what is in the CDI file follows the machine.
func TestD16D17NothingIsRestartedForWhatDoesNotConcernTheWorker(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("amd"), options{"compute-runtime": "rocm"})
	flight := u.Model.Relations[0]
	idle(u, "nothing new", func() sandbox.Result { return u.flight("changed", "web/0") })
	flight.Units["web/0"]["worker-key-authorized-at"] = "1700000000"
	r := u.flight("changed", "web/0")
	require.Empty(t, r.Commands)
	require.Empty(t, r.Plan())
	flight.Units["web/1"] = map[string]string{"tsa-host": "10.0.0.3:2222", "tsa-public-key": tsaKey, "concourse-version": "8.2.5"}
	// Another web concerns it: a process that does not have its address can't go there.
	require.Equal(t, []string{"systemctl restart concourse-worker.service"}, u.flight("joined", "web/1").Commands)
	r = u.flight("changed", "web/1")
	require.Empty(t, r.Commands)
	require.Empty(t, r.Plan())
	require.Equal(t, "active", r.Status().Status)
}
