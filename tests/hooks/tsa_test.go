package hooks

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const authorizedFile = "/var/lib/concourse/keys/authorized_worker_keys"

// giveWebKeys spares the leader the making of keys: it takes over what is there.
func (c *cluster) giveWebKeys() *cluster {
	c.t.Helper()
	u := c.units[0]
	for _, name := range []string{"tsa_host_key", "session_signing_key"} {
		require.NoError(c.t, u.Root.WriteFile("/var/lib/concourse/keys/"+name, workerKey(), 0o600))
	}
	relationOf(u, "peers").LocalApp["admin-password"] = password
	c.share(0)
	return c
}

const password = "from-before"

// webs is a running web application of n units.
func webs(t *testing.T, n int, set options) *cluster {
	t.Helper()
	c := newApp(t, "ci", "10.0.0", n, options{"mode": "web"}).giveWebKeys()
	for _, u := range c.units {
		u.set(set)
	}
	c.begin()
	c.database()
	for k := range c.units {
		c.relation(k, "postgresql", "changed", "postgresql/0")
	}
	return c
}

// newKey gives the unit its own key, as newApp gives all the same one.
func (u *unit) newKey(name string) {
	u.t.Helper()
	require.NoError(u.t, u.Root.WriteFile("/var/lib/concourse-worker/keys/worker_key", keys(name), 0o600))
}

func workers(t *testing.T, n int, set options) *cluster {
	t.Helper()
	c := newApp(t, "gpu", "10.0.1", n, options{"mode": "worker"})
	for k, u := range c.units {
		u.set(set)
		u.newKey(fmt.Sprint("gpu", k))
		c.hook(k, "install")
	}
	return c
}

// registered requires that the web's units trust exactly these workers.
func registered(webs *cluster, units ...*unit) {
	webs.t.Helper()
	var want []string
	for _, u := range units {
		want = append(want, strings.TrimSpace(u.read("/var/lib/concourse-worker/keys/worker_key.pub")))
	}
	slices.Sort(want)
	for _, w := range webs.units {
		require.Equal(webs.t, want, slices.DeleteFunc(strings.Split(w.read(authorizedFile), "\n"), func(s string) bool { return s == "" }), w.Model.Unit)
	}
}

// none requires that no command of the list has the text.
func none(t *testing.T, commands []string, text string) {
	t.Helper()
	for _, c := range commands {
		require.NotContains(t, c, text)
	}
}

// D16, D17, D19: workers come and go; the web is reloaded, never restarted, and
// no other worker hears of it.
func TestD16D17D19WorkersComeAndGoAndNothingIsRestarted(t *testing.T) {
	t.Parallel()
	ci, gpu := webs(t, 2, nil), workers(t, 2, nil)
	n := networkOf(ci, gpu)
	n.flight(ci, gpu)
	commands := n.settle()
	none(t, commands, "restart concourse-server")
	registered(ci, gpu.units...)
	for k := range ci.units {
		require.Equal(t, "active: Web server ready (v8.2.5) "+url(ci.units[k]), ci.status(k))
	}
	for k, u := range gpu.units {
		require.Equal(t, "active: Worker ready (v8.2.5)", gpu.status(k))
		require.Contains(t, u.read("/var/lib/concourse-worker/worker-config.env"), "CONCOURSE_TSA_HOST=10.0.0.10:2222,10.0.0.11:2222\n")
	}
	ci.idle()
	gpu.idle()

	// Another application's worker joins.
	late := newApp(t, "late", "10.0.2", 1, options{"mode": "worker"})
	late.units[0].newKey("late")
	late.hook(0, "install")
	n.apps = append(n.apps, late)
	for _, u := range ci.units {
		u.Model.Relate(11, "tsa", "late")
	}
	late.units[0].Model.Relate(11, "flight", "ci")
	commands = n.settle()
	none(t, commands, "restart")
	none(t, commands, "gpu/")
	registered(ci, append([]*unit{late.units[0]}, gpu.units...)...)

	// One unit goes: it is not trusted any more, and cut off.
	commands = nil
	for _, u := range ci.units {
		r, err := u.RelationHook(find(u, "tsa", "gpu"), "departed", "gpu/1")
		u.fine("departed", r, err)
		commands = append(commands, r.Commands...)
		delete(find(u, "tsa", "gpu").Units, "gpu/1")
	}
	require.Contains(t, commands, "systemctl reload concourse-server.service")
	require.Contains(t, commands, "ss --no-header --tcp --numeric state established dst 10.0.1.11 sport = :2222")
	none(t, commands, "restart")
	registered(ci, gpu.units[0], late.units[0])
	gpu.units = gpu.units[:1]
	ci.idle()

	// The application goes, and comes back.
	n.leave(ci, gpu)
	registered(ci, late.units[0])
	require.Equal(t, "waiting: Waiting for a web — run: juju integrate gpu:flight <web application>:tsa", gpu.status(0))
	require.Empty(t, gpu.up(0))
	n.flight(ci, gpu)
	none(t, n.settle(), "restart")
	registered(ci, gpu.units[0], late.units[0])
	require.Equal(t, workerUp, gpu.up(0))
}

// A hook that changed twice before it is heard, and one that reports nothing new.
func TestWorkersNewKeyTakesThePlaceOfItsOldOne(t *testing.T) {
	t.Parallel()
	ci, gpu := webs(t, 1, nil), workers(t, 1, nil)
	n := networkOf(ci, gpu)
	n.flight(ci, gpu)
	n.settle()
	old := gpu.units[0].read("/var/lib/concourse-worker/keys/worker_key.pub")
	names := []string{find(gpu.units[0], "flight", "ci").Local["worker-name"]} // it is connected all the time
	ci.units[0].lists(&names)
	a := gpu.units[0].action("rotate-keys", map[string]any{"keys": "all"})
	require.Equal(t, "completed", a.Status, a.Message)
	require.NotEqual(t, old, gpu.units[0].read("/var/lib/concourse-worker/keys/worker_key.pub"))
	commands := n.settle()
	registered(ci, gpu.units[0])
	none(t, commands, "restart")
	require.Contains(t, commands, "ci/0 systemctl reload concourse-server.service")
	require.Equal(t, "active: Worker ready (v8.2.5)", gpu.status(0))
	require.Equal(t, "active: Web server ready (v8.2.5) "+url(ci.units[0]), ci.status(0))
	require.Contains(t, ci.units[0].refused("prune-worker", map[string]any{"worker": names[0]}), "it is running; stop it first")
	registered(ci, gpu.units[0])

	tsa := find(ci.units[0], "tsa", "gpu")
	for range 2 {
		r := n.relationHook(ci.units[0], tsa, "changed", "gpu/0")
		require.Empty(t, r.Plan())
		require.Empty(t, r.Commands)
	}
}

// D20: a web that was related before it could run reports workers when it can, whatever
// hook that is.
func TestD20WebInformsWorkersAsSoonAsItCan(t *testing.T) {
	t.Parallel()
	ci, gpu := newApp(t, "ci", "10.0.0", 1, options{"mode": "web"}).giveWebKeys(), workers(t, 1, nil)
	n := networkOf(ci, gpu)
	n.flight(ci, gpu)
	for _, kind := range []string{"created"} {
		n.relationHook(ci.units[0], find(ci.units[0], "tsa", "gpu"), kind, "")
	}
	n.settle()
	require.Equal(t, "waiting: Waiting for TSA connection info...", gpu.status(0))
	ci.begin()
	n.settle()
	require.Equal(t, "waiting: Waiting for TSA connection info...", gpu.status(0))
	require.NotContains(t, find(ci.units[0], "tsa", "gpu").Local, "tsa-host")
	ci.database()
	ci.hook(0, "update-status")
	bag := find(ci.units[0], "tsa", "gpu").Local
	require.Equal(t, "10.0.0.10:2222", bag["tsa-host"])
	require.Equal(t, "8.2.5", bag["concourse-version"])
	require.Equal(t, strings.TrimSpace(ci.units[0].read("/var/lib/concourse/keys/tsa_host_key.pub")), bag["tsa-public-key"])
	n.settle()
	registered(ci, gpu.units[0])
	require.Equal(t, "active: Worker ready (v8.2.5)", gpu.status(0))
	ci.idle()
	gpu.idle()
}

// A worker's bag is a stranger's: what is not a key is named, and no one suffers.
func TestKeyThatIsNoneIsNamedAndLeftOut(t *testing.T) {
	t.Parallel()
	ci := webs(t, 1, nil)
	r := ci.units[0].Model.Relate(10, "tsa", "gpu")
	r.Units = map[string]map[string]string{
		"gpu/0": {"worker-public-key": tsaKey, "ingress-address": "10.0.1.10"},
		"gpu/1": {"worker-public-key": `command="sh" ` + tsaKey},
		"gpu/2": {"worker-public-key": tsaKey + "\n" + strings.Replace(tsaKey, "1s2c", "1s3c", 1)},
		"gpu/3": {},
	}
	for _, remote := range []string{"gpu/0", "gpu/1", "gpu/2", "gpu/3"} {
		ci.relation(0, "tsa", "changed", remote)
	}
	require.Equal(t, tsaKey+"\n", ci.units[0].read(authorizedFile))
	status := ci.status(0)
	require.True(t, strings.HasPrefix(status, "active: Web server ready (v8.2.5)"), status)
	for _, want := range []string{"gpu/1 can't regis", "; and 1 more: "} {
		require.Contains(t, status, want)
	}
	require.NotContains(t, status, "gpu/3")
	ci.idle()
}

// Workers follow the web's version, and the web is not reported back.
func TestWorkerFollowsTheWebsVersion(t *testing.T) {
	t.Parallel()
	ci, gpu := webs(t, 1, nil), workers(t, 1, nil)
	n := networkOf(ci, gpu)
	n.flight(ci, gpu)
	n.settle()
	u := ci.units[0]
	require.NoError(t, u.Root.WriteFile("/database-schema", []byte("825\n"), 0o644))
	for _, c := range []*cluster{ci, gpu} {
		c.units[0].Model.Resources["concourse-release"] = releaseTarball("8.2.6")
	}
	// The worker hears first: its web runs 8.2.5 still.
	gpu.hook(0, "upgrade-charm")
	require.Contains(t, gpu.status(0), "8.2.5", gpu.status(0))
	r := ci.hook(0, "upgrade-charm")
	require.Equal(t, []string{"systemctl restart concourse-server.service"}, r.Commands)
	require.Equal(t, "active: Web server ready (v8.2.6) "+url(u), ci.status(0))
	commands := n.settle()
	require.Equal(t, []string{"gpu/0 systemctl kill --kill-whom=main --signal=SIGUSR2 concourse-worker.service",
		"gpu/0 systemctl restart concourse-worker.service"}, commands)
	require.Equal(t, "active: Worker ready (v8.2.6)", gpu.status(0))
	ci.idle()
	gpu.idle()
}

// The second web takes over: workers go to it with the same key.
func TestWorkersGoToTheOtherWebWhenTheirsLeaves(t *testing.T) {
	t.Parallel()
	ci, gpu := webs(t, 2, nil), workers(t, 1, nil)
	n := networkOf(ci, gpu)
	n.flight(ci, gpu)
	n.settle()
	ci.units[0], ci.units[1] = ci.units[1], ci.units[0]
	ci.units[0].Model.Leader, ci.units[1].Model.Leader = true, false
	gone := n.goes(ci)
	require.Equal(t, "ci/0", gone.Model.Unit)
	ci.hook(0, "leader-elected")
	n.settle()
	require.Contains(t, gpu.units[0].read("/var/lib/concourse-worker/worker-config.env"), "CONCOURSE_TSA_HOST=10.0.0.11:2222\n")
	require.Equal(t, "active: Worker ready (v8.2.5)", gpu.status(0))
	registered(ci, gpu.units[0])
	require.False(t, gone.Root.Exists("/var/lib/concourse/config.env"))
	require.False(t, gone.Root.Exists("/var/lib/concourse/keys"))
	gpu.idle()
	ci.idle()
}

// In Juju the relation of peers may begin after install.
func TestLeaderWithoutPeersYetMakesItsSecretOnce(t *testing.T) {
	t.Parallel()
	c := newApp(t, "ci", "10.0.0", 1, options{"mode": "web"}).giveWebKeys()
	u := c.units[0]
	peers := u.Model.Relations
	u.Model.Relations = nil
	u.hook("install")
	u.Model.Relations = peers
	for _, name := range []string{"leader-elected", "config-changed", "start", "update-status"} {
		c.hook(0, name)
	}
	require.Len(t, u.Model.Secrets, 1)
	require.Equal(t, "secret://"+u.Model.ModelUUID+"/"+u.Model.Secrets[0].ID, relationOf(u, "peers").LocalApp["web-secret"])
	require.Len(t, u.Model.Ports, 1)
}
