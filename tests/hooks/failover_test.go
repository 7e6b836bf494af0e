package hooks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// D3, D33: a leader that never returns takes nothing with it.
func TestD3LeaderThatDiedIsReplacedByAnotherUnit(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, options{"mode": "auto"}).giveWebKeys()
	for k, u := range c.units {
		u.newKey("auto" + u.Model.Unit[len(u.Model.Unit)-1:])
		_ = k
	}
	c.begin()
	c.database()
	c.hook(0, "update-status")
	n := networkOf(c)
	n.settle()
	require.Equal(t, "active: Worker ready (v8.2.5)", c.status(2))
	hostKey := c.units[0].read("/var/lib/concourse/keys/tsa_host_key")

	// Its hooks never run again; that it is a worker now it does not know.
	n.down["concourse-ci-machine/0"] = true
	c.units[0].Model.Leader, c.units[1].Model.Leader = false, true
	c.hook(1, "leader-elected")
	n.settle()
	require.Equal(t, "active: Web server ready (v8.2.5) "+url(c.units[1]), c.status(1))
	require.Equal(t, webUp, c.up(1), "the worker that it was is stopped")
	require.Equal(t, hostKey, c.units[1].read("/var/lib/concourse/keys/tsa_host_key"))
	require.Contains(t, c.units[1].read(webEnvFile), "admin:"+password)
	require.Contains(t, c.units[2].read("/var/lib/concourse-worker/worker-config.env"), "CONCOURSE_TSA_HOST=10.0.0.11:2222\n")
	require.Equal(t, "active: Worker ready (v8.2.5)", c.status(2))
	require.Contains(t, c.units[1].read(authorizedFile), c.units[2].read("/var/lib/concourse-worker/keys/worker_key.pub"))
	require.Contains(t, c.units[1].read(authorizedFile), c.units[0].read("/var/lib/concourse-worker/keys/worker_key.pub"),
		"the unit is there yet, and is let in when it comes back")

	// It comes back, as a worker.
	delete(n.down, "concourse-ci-machine/0")
	c.hook(0, "start")
	n.settle()
	require.Equal(t, workerUp, c.up(0))
	require.Len(t, strings.Fields(c.units[1].read(authorizedFile)), 4, "two keys of two words")
	for _, path := range []string{webEnvFile, "/var/lib/concourse/keys"} {
		require.False(t, c.units[0].Root.Exists(path))
	}
	for _, u := range c.units {
		u.keeps(password)
	}
	c.idle()

	// D19: a unit that is removed is not trusted any more.
	n.goes(c)
	require.Equal(t, c.units[0].read("/var/lib/concourse-worker/keys/worker_key.pub"), c.units[1].read(authorizedFile))
	c.idle()
}

// What a leader made in a hook that failed is what the next hook uses: what is
// on the disk and what is shared are the same.
func TestKeysMadeInAFailedHookAreUsedInTheNext(t *testing.T) {
	t.Parallel()
	c := newApp(t, "ci", "10.0.0", 1, options{"mode": "web"})
	u := c.units[0]
	c.database()
	u.Machine.Fail = func(line string) string {
		if strings.HasPrefix(line, "systemctl start") {
			return "Unit concourse-server.service is masked."
		}
		return ""
	}
	u.fails(u.Hook("install"))
	hostKey, env := u.read("/var/lib/concourse/keys/tsa_host_key"), u.read(webEnvFile)
	require.Empty(t, u.secrets(), "nothing of a failed hook is kept")
	u.Machine.Fail = nil
	c.hook(0, "install")
	require.Equal(t, "active: Web server ready (v8.2.5) "+url(u), c.status(0))
	require.Equal(t, hostKey, u.read("/var/lib/concourse/keys/tsa_host_key"))
	require.Equal(t, lineOf(env, "CONCOURSE_ADD_LOCAL_USER="), lineOf(u.read(webEnvFile), "CONCOURSE_ADD_LOCAL_USER="))
	require.Len(t, u.secrets(), 1)
	require.Equal(t, hostKey, u.secrets()[0])
	c.idle()
}

// secrets are the TSA's keys in the application's own secrets.
func (u *unit) secrets() (found []string) {
	for _, s := range u.Model.Secrets {
		if s.Owner == u.Model.App() {
			found = append(found, s.Revisions[len(s.Revisions)-1]["tsa-host-key"])
		}
	}
	return found
}

// D33: a worker application's bag of the predecessor is cleaned as well.
func TestD33WorkerApplicationForgetsThePredecessorsSecrets(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("no-gpu"), nil)
	peers := u.Model.Relate(1, "peers", u.Model.App())
	peers.LocalApp = map[string]string{"admin-password": "in clear", "vault-role-secret-id": "in clear", "upgrade-state": "idle", "own": "kept"}
	peers.Local["web-ip"] = "10.0.0.5"
	u.hook("upgrade-charm")
	require.Equal(t, map[string]string{"own": "kept"}, peers.LocalApp)
	require.NotContains(t, peers.Local, "web-ip")
	require.NotContains(t, u.hook("update-status").Calls, "relation-set")
}

// D21, D22: the mode can be changed; nothing of the other role stays.
func TestModeCanBeChanged(t *testing.T) {
	t.Parallel()
	c := webs(t, 1, nil)
	u := c.units[0]
	u.set(options{"mode": "worker"})
	r := c.hook(0, "config-changed")
	require.Equal(t, "waiting: Waiting for a web — run: juju integrate ci:flight <web application>:tsa", c.status(0))
	require.Contains(t, r.Commands, "systemctl stop concourse-server.service")
	require.Contains(t, r.Commands, "systemctl disable concourse-server.service")
	for _, path := range []string{webEnvFile, "/var/lib/concourse/keys", "/etc/systemd/system/concourse-server.service"} {
		require.False(t, u.Root.Exists(path), path)
	}
	require.Empty(t, u.Model.Ports)
	require.NoError(t, u.Root.WriteFile("/var/lib/concourse-ci-machine/landed", nil, 0o600))
	u.set(options{"mode": "web"})
	r = c.hook(0, "config-changed")
	require.Contains(t, r.Commands, "systemctl start concourse-server.service")
	require.False(t, u.Root.Exists("/var/lib/concourse-ci-machine/landed"), "a worker that comes later is another one")
	require.Equal(t, "active: Web server ready (v8.2.5) "+url(u), c.status(0))
	require.False(t, u.Root.Exists("/etc/systemd/system/concourse-worker.service"))
	require.Equal(t, string(workerKey()), u.read("/var/lib/concourse/keys/tsa_host_key"), "the application's keys, from its secret")
	c.idle()
}
