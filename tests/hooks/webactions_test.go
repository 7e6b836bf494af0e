package hooks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// refused runs an action that must fail, and returns why.
func (u *unit) refused(name string, params map[string]any) string {
	u.t.Helper()
	a := u.action(name, params)
	require.Equal(u.t, "failed", a.Status, "%v", a.Results)
	return a.Message
}

func (u *unit) done(name string, params map[string]any) map[string]any {
	u.t.Helper()
	a := u.action(name, params)
	require.Equal(u.t, "completed", a.Status, a.Message)
	return a.Results
}

// D24: the password is the one that the web has, or there is no answer.
func TestD24AdminPasswordIsTheWebsOwnOrNone(t *testing.T) {
	t.Parallel()
	c := newApp(t, "ci", "10.0.0", 2, options{"mode": "web", "initial-admin-username": "root"}).giveWebKeys()
	c.hook(1, "install")
	require.Equal(t, "cannot show the password: it is not set yet; see juju status ci/1", c.units[1].refused("get-admin-password", nil))
	c.hook(0, "install")
	c.database()
	networkOf(c).settle()
	for k, u := range c.units {
		c.hook(k, "update-status")
		require.Equal(t, map[string]any{"username": "root", "password": password, "message": "Use these credentials to login to Concourse web UI"}, u.done("get-admin-password", nil))
		require.Contains(t, u.read(webEnvFile), "CONCOURSE_ADD_LOCAL_USER=root:"+password+"\n")
	}
	w := worker(t, fixture("no-gpu"), nil)
	require.Equal(t, "cannot show the password: this unit is a worker; run it on the web's unit", w.refused("get-admin-password", nil))
	w.set(options{"log-level": "loud"})
	require.Contains(t, w.refused("restart-services", nil), "cannot restart: options are wrong: log-level: ")
}

// D25: check-status looks, reports what it found, and fails when something fails.
func TestD25CheckStatusReportsAndFails(t *testing.T) {
	t.Parallel()
	c := webs(t, 1, nil)
	u := c.units[0]
	var api fakeAPI
	u.Machine.Web = &api
	res := u.done("check-status", nil)
	require.Equal(t, "ok", res["status"])
	require.Equal(t, "web", res["role"])
	require.Equal(t, "8.2.5", res["version"])
	require.Contains(t, res["checks"], "ok      web: "+url(u))
	require.Contains(t, res["checks"], "ok      database: concourse at 127.0.0.1")
	var checks []struct {
		Name string `json:"name"`
		OK   bool   `json:"ok"`
	}
	require.NoError(t, json.Unmarshal([]byte(res["json"].(string)), &checks))
	require.Len(t, checks, 2)
	api.workers = map[string]string{"gpu-0": "running", "gpu-1": "stalled"}
	res = u.done("check-status", map[string]any{"verbose": true})
	for _, want := range []string{"concourse-server.service: active (running), enabled", "workers: 2", "worker gpu-1: stalled"} {
		require.Contains(t, res["checks"], want)
	}
	res = u.done("fleet", nil)
	require.Regexp(t, `^2 workers, 0 GPUs: .*\nUNIT .*\n- +gpu-0 +running .*\n- +gpu-1 +stalled `, res["fleet"])
	stdout, stderr, code := u.person("fleet", "--json")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, `"state": "stalled"`)
	require.NoError(t, c.pg.Close())
	why := u.refused("check-status", nil)
	require.Contains(t, why, "cannot report this unit as healthy: database: ")
	require.NotContains(t, why, "pw")

	w := worker(t, fixture("no-gpu"), nil)
	res = w.done("check-status", map[string]any{"verbose": true})
	for _, want := range []string{"worker: healthy and registered at 10.0.0.2:2222", "runc: 8.2.5", "containerd: 8.2.5", "kfd: ", "warn    rocm-exporter: no verdicts on tasks: "} {
		require.Contains(t, res["checks"], want)
	}
	w.Model.Relations = nil
	require.Contains(t, w.refused("check-status", nil), "Waiting for a web — run: juju integrate ")
	w.set(options{"mode": "both", "log-level": "loud"})
	why = w.refused("check-status", nil)
	require.Contains(t, why, `mode: "both"`)
	require.Contains(t, why, "log-level: ")
}

func TestRestartServicesRestartsWhatTheUnitRuns(t *testing.T) {
	t.Parallel()
	c := newApp(t, "ci", "10.0.0", 1, options{"mode": "web"}).giveWebKeys()
	c.begin()
	require.Equal(t, "cannot restart: this unit has no service to run yet; see juju status ci/0", c.units[0].refused("restart-services", nil))
	c.database()
	c.hook(0, "update-status")
	r, err := c.units[0].Action("restart-services", map[string]any{"force": true})
	c.units[0].fine("restart-services", r, err)
	require.Equal(t, []string{"systemctl restart concourse-server.service"}, r.Commands)
	require.Equal(t, map[string]any{"restarted": "concourse-server.service"}, r.Action.Results)
	c.idle()
	w := worker(t, fixture("no-gpu"), nil)
	require.Equal(t, map[string]any{"restarted": "concourse-worker.service concourse-pebble.service"}, w.done("restart-services", nil))
	w.Machine.Fail = func(line string) string {
		if strings.HasPrefix(line, "systemctl restart") {
			return "Unit concourse-worker.service is masked."
		}
		return ""
	}
	require.Contains(t, w.refused("restart-services", nil), "is masked")
}

func TestRunMigrationsMovesTheDatabaseWithTheWebStopped(t *testing.T) {
	t.Parallel()
	c := webs(t, 1, nil)
	u := c.units[0]
	schema := func() string { return strings.TrimSpace(u.read("/database-schema")) }
	run := func(params map[string]any) ([]string, *jujutest.Action) {
		r, err := u.Action("run-migrations", params)
		u.fine("run-migrations", r, err)
		return r.Commands, r.Action
	}
	// No web has used the database yet.
	commands, a := run(nil)
	require.Equal(t, []string{"systemctl stop concourse-server.service", "systemctl start concourse-server.service"}, commands)
	require.Equal(t, map[string]any{"before": "0", "supported": "825", "after": "825"}, a.Results)
	require.Equal(t, "825", schema())
	commands, a = run(nil)
	require.Empty(t, commands)
	require.Equal(t, "the database has this version", a.Results["message"])
	for text, want := range map[string]string{"9000": "this release knows none above 825", "-1": `cannot migrate to "-1"`, "latest": `cannot migrate to "latest"`} {
		why := u.refused("run-migrations", map[string]any{"target-version": text})
		require.Contains(t, why, want)
		require.Equal(t, webUp, c.up(0), text)
		require.Equal(t, "825", schema())
	}
	commands, a = run(map[string]any{"target-version": "800"})
	require.Equal(t, []string{"systemctl stop concourse-server.service"}, commands)
	require.Equal(t, "completed", a.Status)
	require.Contains(t, a.Results["message"], "the web is stopped")
	require.Equal(t, "800", schema())
	u.keeps("pw", password)
	w := worker(t, fixture("no-gpu"), nil)
	require.Equal(t, "cannot migrate: this unit is a worker; run it on the web's unit", w.refused("run-migrations", nil))
}

func TestRotateKeysChangesOnlyTheNamedKeys(t *testing.T) {
	t.Parallel()
	c := newApp(t, "ci", "10.0.0", 2, options{"mode": "web"}).giveWebKeys()
	gpu := workers(t, 1, nil)
	n := networkOf(c, gpu)
	n.flight(c, gpu)
	require.Contains(t, func() string {
		c.hook(1, "install")
		return c.units[1].refused("rotate-keys", map[string]any{"keys": "all"})
	}(), "run it on the leader (juju run ci/leader rotate-keys keys=all)")
	c.begin()
	c.database()
	c.hook(0, "update-status")
	c.hook(1, "update-status")
	n.settle()
	leader := c.units[0]
	id := relationOf(leader, "peers").LocalApp["web-secret"]
	content := func() map[string]string {
		s := leader.secret(id)
		return s.Revisions[len(s.Revisions)-1]
	}
	for _, tt := range []struct {
		keys    string
		changed []string
	}{
		{"session", []string{"session-signing-key"}},
		{"tsa-host", []string{"tsa-host-key"}},
		{"admin-password", []string{"admin-password"}},
		{"all", []string{"admin-password", "session-signing-key", "tsa-host-key"}},
	} {
		before := content()
		bag := find(leader, "tsa", "gpu").Local["tsa-public-key"]
		res := leader.done("rotate-keys", map[string]any{"keys": tt.keys})
		after := content()
		for key := range before {
			changed := strings.Contains(fmt.Sprint(tt.changed), key)
			require.Equal(t, changed, before[key] != after[key], "%s: %s", tt.keys, key)
			require.Equal(t, changed, strings.Contains(res["rotated"].(string), key))
		}
		commands := n.settle()
		for _, u := range c.units {
			require.Equal(t, after["tsa-host-key"], u.read("/var/lib/concourse/keys/tsa_host_key"))
			require.Equal(t, after["session-signing-key"], u.read("/var/lib/concourse/keys/session_signing_key"))
			require.Contains(t, u.read(webEnvFile), after["admin-password"])
			require.Equal(t, strings.TrimSpace(u.read("/var/lib/concourse/keys/tsa_host_key.pub")), find(u, "tsa", "gpu").Local["tsa-public-key"])
			u.keeps(before["admin-password"], after["admin-password"])
		}
		host := strings.Contains(fmt.Sprint(tt.changed), "tsa-host-key")
		require.Equal(t, host, bag != find(leader, "tsa", "gpu").Local["tsa-public-key"], tt.keys)
		require.Contains(t, commands, "ci/1 systemctl restart concourse-server.service", tt.keys)
		if !host {
			none(t, commands, "gpu/0 ")
		}
		require.Equal(t, strings.TrimSpace(leader.read("/var/lib/concourse/keys/tsa_host_key.pub")), strings.TrimSpace(gpu.units[0].read("/var/lib/concourse-worker/keys/tsa_host_key.pub")))
		c.idle()
		gpu.idle()
	}
	before := content()
	for _, tt := range []struct {
		params map[string]any
		want   string
	}{
		{map[string]any{"key": "tsa-host"}, `cannot run rotate-keys with the parameter "key": it takes keys; nothing was done`},
		{map[string]any{"keys": "session", "key": "tsa-host"}, `cannot run rotate-keys with the parameter "key"`},
		{nil, "cannot rotate keys: keys is not set; use keys=all or one of admin-password, all, session, tsa-host"},
	} {
		require.Contains(t, leader.refused("rotate-keys", tt.params), tt.want)
		require.Contains(t, gpu.units[0].refused("rotate-keys", tt.params), tt.want)
	}
	require.Contains(t, gpu.units[0].refused("rotate-keys", map[string]any{"keys": "session"}), "this unit is a worker with one key; use keys=all, or run the action on a web")
	require.Equal(t, before, content())
	require.Contains(t, leader.refused("rotate-keys", map[string]any{"keys": "encryption"}), `cannot rotate "encryption": want one of admin-password, all, session, tsa-host`)
}

// A worker that was landed stays so, whatever hook comes, until people end it.
func TestLandedWorkerStaysLandedUntilRestartServices(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("no-gpu"), nil)
	r, err := u.Action("land-worker", nil)
	u.fine("land-worker", r, err)
	require.Equal(t, "completed", r.Action.Status, r.Action.Message)
	require.Contains(t, r.Commands, "systemctl kill --kill-whom=main --signal=SIGUSR1 concourse-worker.service")
	require.False(t, u.Machine.Up("concourse-worker.service"))
	const landed = "waiting: Worker landed by an action and takes no work — run: juju run concourse-ci-machine/0 restart-services"
	for _, name := range []string{"update-status", "config-changed", "start", "upgrade-charm"} {
		r := u.hook(name)
		require.Equal(t, landed, r.Status().Status+": "+r.Status().Message, name)
		none(t, r.Commands, "start concourse-worker")
	}
	u.flight("changed", "web/0")
	require.False(t, u.Machine.Up("concourse-worker.service"))
	require.Contains(t, u.refused("land-worker", nil), "cannot land the worker: it is not to be running")
	u.set(options{"tag": "later"})
	u.hook("config-changed")
	u.done("restart-services", nil)
	require.True(t, u.Machine.Up("concourse-worker.service"))
	r = u.hook("update-status")
	require.Equal(t, "active", r.Status().Status)

	u.done("land-worker", nil)
	u.flight("broken", "")
	u.Model.Relations = nil
	u.hook("update-status")
	require.Equal(t, map[string]any{"restarted": "concourse-pebble.service"}, u.done("restart-services", nil), "D4: it has no web")
	require.False(t, u.Machine.Up("concourse-worker.service"))

	c := webs(t, 1, nil)
	require.Equal(t, "cannot land the worker: this unit is the web; run it on a worker's unit", c.units[0].refused("land-worker", nil))
	require.Equal(t, `cannot quarantine GPU "0": this unit is the web, which gives tasks no GPU; run it on a worker's unit`,
		c.units[0].refused("quarantine-gpu", map[string]any{"gpu": 0}))
}

// The web is away or restarts: a worker that still runs is reported again by each hook, and
// one that systemd starts again is stopped.
func TestLandingWorkerGetsTheSignalAgainUntilItStops(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("no-gpu"), options{"worker-drain-timeout": "1m"})
	const signal = "systemctl kill --kill-whom=main --signal=SIGUSR1 concourse-worker.service"
	fails := signal
	u.Machine.Fail = func(line string) string {
		if line == fails {
			return "Failed to reach concourse-worker.service: Connection timed out"
		}
		return ""
	}
	require.Contains(t, u.refused("land-worker", nil), "Connection timed out")
	require.False(t, u.Root.Exists("/var/lib/concourse-ci-machine/landed"))
	u.hook("update-status")
	require.Contains(t, u.show("concourse-worker.service"), "UnitFileState=enabled")

	fails = "systemctl stop concourse-worker.service" // after the signal, which can't be taken back
	require.Contains(t, u.refused("land-worker", nil), "Connection timed out")
	require.True(t, u.Root.Exists("/var/lib/concourse-ci-machine/landed"))
	fails = ""
	none(t, u.hook("update-status").Commands, "start concourse-worker")
	u.done("restart-services", nil)

	require.NoError(t, u.Root.WriteFile("/var/lib/concourse-ci-machine/landed", nil, 0o600))
	r := u.hook("update-status")
	require.Contains(t, r.Commands, signal)
	require.Equal(t, "waiting: Worker is landing and stops when its tasks end", r.Status().Status+": "+r.Status().Message)
	require.False(t, u.Machine.Up("concourse-worker.service"))
	require.Empty(t, u.hook("update-status").Plan())
}

// A worker that was landed does not come back by a reboot.
func TestLandedWorkerIsNotStartedByTheMachine(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("no-gpu"), nil)
	u.done("land-worker", nil)
	require.NotContains(t, u.show("concourse-worker.service"), "UnitFileState=enabled")
	u.done("restart-services", nil)
	u.hook("update-status")
	require.Contains(t, u.show("concourse-worker.service"), "UnitFileState=enabled")
}

// show asks the unit's systemd.
func (u *unit) show(name string) string {
	u.t.Helper()
	return u.Machine.Systemctl("show", name)
}

func TestPruneWorkerTakesOnlyWorkersThatLeft(t *testing.T) {
	t.Parallel()
	c := webs(t, 1, nil)
	u := c.units[0]
	tsa := u.Model.Relate(10, "tsa", "gpu")
	for name, key := range map[string]string{"gpu-0": "1s2c", "gpu-2": "1s3c", "gpu-3": "1s4c"} {
		unit := strings.Replace(name, "-", "/", 1)
		tsa.Units[unit] = map[string]string{"worker-name": name, "drain-timeout": "10m0s", "worker-public-key": strings.Replace(tsaKey, "1s2c", key, 1), "ingress-address": "10.0.1.1"}
		c.relation(0, "tsa", "changed", unit)
	}
	api := &fakeAPI{workers: map[string]string{"gpu-0": "running", "gpu-1": "stalled", "gpu-2": "landing", "gpu-3": "running"}}
	u.Machine.Web = api
	for name, want := range map[string]string{
		"":      "cannot prune a worker without its name",
		"gpu-0": "cannot prune worker gpu-0: it is running",
		"gpu-2": "cannot prune worker gpu-2: it is landing",
		"gpu-9": `cannot prune worker "gpu-9": the web has gpu-0 (running), gpu-1 (stalled), gpu-2 (landing), gpu-3 (running)`,
	} {
		require.Contains(t, u.refused("prune-worker", map[string]any{"worker": name}), want)
	}
	require.Equal(t, map[string]any{"pruned": "gpu-1"}, u.done("prune-worker", map[string]any{"worker": "gpu-1"}))
	// A unit can go before its tasks end, and nothing but this ends their builds soon.
	delete(tsa.Units, "gpu/2")
	c.relation(0, "tsa", "departed", "gpu/2")
	u.done("prune-worker", map[string]any{"worker": "gpu-2"})
	require.Equal(t, []string{"gpu-1", "gpu-2"}, api.pruned)
	// worker-drain-timeout=0s: no one waits for its tasks, and a stalled worker must not
	// stay.
	tsa.Units["gpu/3"]["drain-timeout"] = "0s"
	c.relation(0, "tsa", "changed", "gpu/3")
	delete(tsa.Units, "gpu/3")
	c.relation(0, "tsa", "departed", "gpu/3")
	require.Equal(t, []string{"gpu-1", "gpu-2", "gpu-3"}, api.pruned)
	require.NotContains(t, c.status(0), "gpu/3")
	require.Empty(t, u.hook("update-status").Plan())
	api.refuse = true
	require.Contains(t, u.refused("prune-worker", map[string]any{"worker": "gpu-0"}), "cannot")
	u.keeps(password)
	w := worker(t, fixture("no-gpu"), nil)
	require.Equal(t, "cannot prune a worker: this unit is a worker; run it on the web's unit", w.refused("prune-worker", map[string]any{"worker": "gpu-1"}))
}

// fakeAPI is a web with workers, by name and state.
type fakeAPI struct {
	mu      sync.Mutex
	workers map[string]string
	pruned  []string
	refuse  bool // no one may log in
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name, prunes := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/workers/"), "/prune")
	switch {
	case r.URL.Path == "/api/v1/info":
		fmt.Fprintln(w, `{"version":"8.2.5","worker_version":"2.5"}`)
	case r.URL.Path == "/sky/issuer/token":
		if f.refuse || r.PostFormValue("username") != "admin" || r.PostFormValue("password") != password {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintln(w, `{"error":"access_denied"}`)
			return
		}
		fmt.Fprintln(w, `{"access_token":"t"}`)
	case r.Header.Get("Authorization") != "Bearer t":
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/api/v1/workers":
		var all []map[string]string
		for _, n := range sorted(f.workers) {
			all = append(all, map[string]string{"name": n, "state": f.workers[n]})
		}
		json.NewEncoder(w).Encode(all)
	case strings.HasSuffix(name, "/land") && r.Method == http.MethodPut:
		f.workers[strings.TrimSuffix(name, "/land")] = "landing"
	case prunes && f.workers[name] == "running":
		w.WriteHeader(http.StatusBadRequest)
	case prunes && r.Method == http.MethodPut:
		f.pruned = append(f.pruned, name)
		delete(f.workers, name)
	default:
		http.NotFound(w, r)
	}
}
