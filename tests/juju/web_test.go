package juju

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const authorizedFile = "/var/lib/concourse/keys/authorized_worker_keys"

// registered requires that the web trusts exactly these workers.
func (u *unit) registered(workers ...*unit) {
	u.t.Helper()
	var want []string
	for _, w := range workers {
		want = append(want, strings.TrimSpace(w.read("/var/lib/concourse-worker/keys/worker_key.pub")))
	}
	require.ElementsMatch(u.t, want, strings.FieldsFunc(u.read(authorizedFile), func(r rune) bool { return r == '\n' }))
}

// A web and two workers come to the same end in whichever order things happen;
// a worker that goes is trusted no more, and one that comes again is.
func TestTSAAndFlightInEveryOrder(t *testing.T) {
	steps := map[string]func(*world){
		"web":      func(w *world) { w.deploy("ci", 1, 1, fixture("no-gpu"), options{"mode": "web"}) },
		"database": func(w *world) { w.database("ci", 4) },
		"workers":  func(w *world) { w.deploy("gpu", 2, 2, fixture("no-gpu"), options{"mode": "worker"}) },
		"relation": func(w *world) { w.Relate(flight(9, "ci", "gpu")) },
	}
	for _, order := range []string{
		"web database workers relation", "web workers relation database", "workers web relation database",
		"workers web database relation", "web workers database relation", "workers web relation+database", "web+workers+relation+database",
	} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, together := range strings.Fields(order) {
				for _, name := range strings.Split(together, "+") {
					steps[name](w)
				}
				w.settle()
			}
			by := map[string]*unit{}
			for _, u := range w.units {
				by[u.Name] = u
			}
			web, one, two := by["ci/0"], by["gpu/0"], by["gpu/1"]
			require.Contains(t, web.status(), "active: Web server ready (v8.2.5) ")
			for _, u := range []*unit{one, two} {
				require.Equal(t, "active: Worker ready (v8.2.5)", u.status(), u.Name)
			}
			web.registered(one, two)
			w.idle()
			if order != "web database workers relation" {
				return
			}
			r := w.RelationOf(9)
			w.Leave(r, "gpu/1")
			require.Contains(t, w.settle(), "ci/0 tsa-relation-departed gpu/1")
			web.registered(one)
			w.Join(r, "gpu/1", two.Address)
			require.Contains(t, w.settle(), "ci/0 tsa-relation-joined gpu/1")
			web.registered(one, two)
			w.idle()
			w.Remove(r)
			hooks := w.settle()
			for _, want := range []string{"ci/0 tsa-relation-broken", "gpu/0 flight-relation-broken", "gpu/1 flight-relation-broken"} {
				require.Contains(t, hooks, want)
			}
			web.registered()
			require.Contains(t, one.status(), "Waiting for a web")
			require.Empty(t, one.up())
			w.Relate(flight(10, "ci", "gpu"))
			w.settle()
			web.registered(one, two)
			require.Equal(t, "active: Worker ready (v8.2.5)", one.status())
			w.idle()
		})
	}
}

// Two webs share keys, passwords and the database, and both hear of its new
// password.
func TestWebsFollowTheirSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ci := w.deploy("ci", 1, 2, fixture("no-gpu"), options{"mode": "web"})
	r, s := w.database("ci", 4)
	w.settle()
	for _, u := range ci {
		require.Contains(t, u.status(), "active: Web server ready (v8.2.5) ")
		require.Equal(t, ci[0].read("/var/lib/concourse/keys/session_signing_key"), u.read("/var/lib/concourse/keys/session_signing_key"))
		require.Contains(t, u.read("/var/lib/concourse/config.env"), "first-password")
	}
	w.idle()
	w.Update(s, map[string]string{"username": "relation_4", "password": "second-password"})
	require.Equal(t, []string{"ci/0 secret-changed", "ci/1 secret-changed"}, w.settle())
	for _, u := range ci {
		require.Contains(t, u.read("/var/lib/concourse/config.env"), "second-password")
		require.Equal(t, 2, w.Tracked(s, u.Name))
	}
	own := w.Secrets("ci")[0]
	a, ran := ci[0].Act("rotate-keys", map[string]any{"keys": "admin-password"})
	require.NoError(t, ran.Err)
	require.Equal(t, "completed", a.Status, a.Message)
	w.settle()
	require.Len(t, own.Revisions, 2)
	require.Equal(t, 2, w.Tracked(own, "ci/1"), "who does not lead heard of it")
	one, _ := ci[0].Act("get-admin-password", nil)
	two, _ := ci[1].Act("get-admin-password", nil)
	require.NotEmpty(t, one.Results["password"])
	require.Equal(t, one.Results["password"], two.Results["password"])
	for _, app := range []string{"ci", "postgresql"} {
		for _, v := range w.Bag(r, app) {
			require.NotContains(t, v, "second-password")
			require.NotContains(t, v, one.Results["password"])
		}
	}
	w.idle()
	w.Remove(r)
	w.settle()
	require.Contains(t, ci[0].status(), "blocked: PostgreSQL database required")
	require.Empty(t, ci[0].up())
}

// Juju refuses what is of no type or no option; the charm names the rest.
func TestWrongOptionsAreNamedAndHeal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := w.deploy("gpu", 1, 1, fixture("no-gpu"), options{"mode": "worker"})[0]
	w.strange("gpu")
	w.settle()
	require.ErrorContains(t, w.Configure("gpu", options{"no-such-option": "x"}), "unknown option")
	require.ErrorContains(t, w.Configure("gpu", options{"web-port": "x"}), "expected int")
	require.NoError(t, w.Configure("gpu", options{"compute-runtime": "rcom", "log-level": "loud"}))
	require.Equal(t, []string{"gpu/0 config-changed"}, w.settle())
	require.Equal(t, "blocked: log-level: \"loud\" is not one of debug, info, warn, error, fatal; and 1 more: juju run gpu/0 check-status", u.status())
	require.Equal(t, []string{workerUnit}, u.up(), "it runs on")
	require.NoError(t, w.Configure("gpu", options{"compute-runtime": nil, "log-level": nil}))
	w.settle()
	require.Equal(t, "active: Worker ready (v8.2.5)", u.status())
	w.idle()
}

// Every action of actions.yaml starts with parameters that it takes, and Juju
// does not start the charm for any other.
func TestEveryActionWithGoodAndWrongParameters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := w.deploy("gpu", 1, 1, fixture("amd"), options{"mode": "worker", "compute-runtime": "rocm", "amd-container-toolkit": "skip"})[0]
	w.strange("gpu")
	w.settle()
	good := map[string]map[string]any{"explain-error": {"code": 2}, "prune-worker": {"worker": "old"}, "release-gpu": {"gpu": 0}, "rotate-keys": {"keys": "all"},
		"quarantine-gpu": {"gpu": 0, "reason": "noisy fan"}, "return-gpu": {"gpu": 0}}
	wrong := map[string][]map[string]any{
		"list-gpus": {{"format": "xml"}, {"format": 1}}, "verify-gpu": {{"format": true}}, "gpu-health": {{"format": "html"}},
		"explain-error": {{"code": "two"}, {"code": 1.5}, {"format": nil}}, "check-status": {{"verbose": "yes"}}, "restart-services": {{"force": 1}},
		"run-migrations": {{"target-version": 7}}, "rotate-keys": {nil, {"keys": "some"}, {"key": "tsa-host"}, {"keys": "all", "key": "tsa-host"}}, "prune-worker": {nil, {"worker": 1}},
		"gpu-status": {{"format": "xml"}}, "gpu-evidence": {{"format": "xml"}}, "release-gpu": {nil, {"gpu": "0", "force": "yes"}}, "coverage": {{"format": "xml"}}, "fleet": {{"format": "xml"}, {"format": 1}}, "flakes": {{"format": "xml"}},
		"quarantine-gpu": {nil, {"gpu": 0}, {"gpu": 0, "reason": 7}}, "return-gpu": {nil, {"gpu": 0, "reason": "well"}},
		"get-pipelines": {{"name": 1}, {"name": nil}},
	}
	// What a worker without a web's API and without real GPU nodes can't do, it reports.
	fails := map[string]string{"get-admin-password": "this unit is a worker", "run-migrations": "worker", "prune-worker": "worker",
		"coverage": "worker", "fleet": "worker", "flakes": "worker", "release-gpu": "GPUs are not leased", "quarantine-gpu": "is watched yet", "return-gpu": "is watched yet",
		"verify-gpu": "", "gpu-health": "", "check-status": ""}
	for name := range u.Actions() {
		a, ran := u.Act(name, good[name])
		require.NoError(t, ran.Err, name)
		why, mayFail := fails[name]
		if a.Status == "failed" {
			require.True(t, mayFail, "%s: %s", name, a.Message)
			require.Contains(t, a.Message, why, name)
		} else {
			require.Equal(t, "completed", a.Status, name)
		}
		misspelt := maps.Clone(good[name])
		if misspelt == nil {
			misspelt = map[string]any{}
		}
		misspelt["no-such-parameter"] = "x"
		for _, params := range append(wrong[name], misspelt) {
			a, ran := u.Act(name, params)
			require.Error(t, ran.Err, "%s %v", name, params)
			require.Equal(t, "pending", a.Status, "%s %v started", name, params)
			require.Empty(t, ran.Statuses)
		}
		delete(wrong, name)
	}
	require.Empty(t, wrong, "no such actions")
	_, ran := u.Act("no-such-action", nil)
	require.ErrorContains(t, ran.Err, "not defined")
}

// The hook after a refresh from the Python charm makes its worker this one's.
func TestUpgradeFromThePredecessorsTree(t *testing.T) {
	for _, name := range []string{"worker", "rocm"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := hosttest.Predecessor(t, name)
			w := newWorld(t)
			set := options{"mode": "worker", "amd-container-toolkit": "skip"}
			if name == "rocm" {
				set["compute-runtime"] = "rocm"
			}
			require.NoError(t, root.Remove("/var/lib/concourse-worker/keys/worker_key"))
			u := w.deploy("gpu", 1, 1, string(root), set)[0]
			r := w.strange("gpu")
			u.Installed()
			require.NoError(t, w.Refresh("gpu", charmDir()))
			require.Equal(t, []string{"gpu/0 upgrade-charm", "gpu/0 config-changed"}, w.settle())
			require.Contains(t, u.status(), "active: Worker ready (v8.2.5)")
			require.Equal(t, strings.TrimSpace(u.read("/etc/hostname")), w.Bag(r, "gpu/0")["worker-name"], fmt.Sprint(w.Bag(r, "gpu/0")))
			require.False(t, u.Root.Exists("/usr/local/bin/runc-wrapper"))
			w.idle()
		})
	}
}

// remove-application --force: the controller forgets the relation at once, and the agent,
// which runs no hook of it, goes on to list it.
func TestUnitsOutliveARelationRemovedByForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	web := w.deploy("ci", 1, 1, fixture("no-gpu"), options{"mode": "web"})[0]
	pg, _ := w.database("ci", 4)
	one := w.deploy("gpu", 2, 1, fixture("no-gpu"), options{"mode": "worker"})[0]
	two := w.deploy("cpu", 3, 1, fixture("no-gpu"), options{"mode": "worker"})[0]
	lost := w.Relate(flight(9, "ci", "gpu"))
	w.settle()
	web.registered(one)
	w.RemoveByForce(lost)
	require.NoError(t, one.Hook("update-status").Err)
	require.NoError(t, w.Configure("ci", options{"log-level": "debug"}))
	w.Relate(flight(10, "ci", "cpu"))
	w.settle()
	require.Contains(t, web.read("/var/lib/concourse/config.env"), "CONCOURSE_LOG_LEVEL=debug\n")
	require.Equal(t, "active: Worker ready (v8.2.5)", two.status())
	require.Contains(t, web.status(), "active: Web server ready (v8.2.5) ")
	require.Contains(t, one.status(), "Waiting for a web")
	web.registered(two)
	w.idle()

	w.RemoveByForce(pg)
	require.NoError(t, web.Hook("update-status").Err)
	require.Contains(t, web.status(), "blocked: PostgreSQL database required")
}
