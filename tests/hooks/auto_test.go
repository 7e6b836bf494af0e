package hooks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// D3: the predecessor's new leader had no keys, and its old one kept the web.
func TestD3ThreeUnitsOfModeAutoAndAnotherLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, options{"mode": "auto"})
	c.begin()
	require.Equal(t, "blocked: PostgreSQL database required — run: juju integrate concourse-ci-machine:postgresql <postgresql application>:database", c.status(0))
	for _, k := range []int{1, 2} {
		require.Equal(t, "waiting: Waiting for the leader's web: see the leader's status", c.status(k))
		require.Empty(t, c.up(k))
	}

	c.database()
	c.relation(0, "postgresql", "changed", "postgresql/0")
	require.Equal(t, "active: Web server ready (v8.2.5) "+url(c.units[0]), c.status(0))
	c.gossip()
	require.Equal(t, webUp, c.up(0))
	for _, k := range []int{1, 2} {
		require.Equal(t, "active: Worker ready (v8.2.5)", c.status(k))
		require.Equal(t, workerUp, c.up(k))
	}
	authorized := c.units[0].read("/var/lib/concourse/keys/authorized_worker_keys")
	require.Contains(t, authorized, strings.TrimSpace(c.units[1].read("/var/lib/concourse-worker/keys/worker_key.pub")))
	c.idle()
	hostKey, session := c.units[0].read("/var/lib/concourse/keys/tsa_host_key"), c.units[0].read("/var/lib/concourse/keys/session_signing_key")
	password, _ := c.units[0].action("get-admin-password", nil).Results["password"].(string)
	require.NotEmpty(t, password)

	c.units[0].Model.Leader, c.units[1].Model.Leader = false, true
	c.hook(1, "leader-elected")
	require.Equal(t, "active: Web server ready (v8.2.5) "+url(c.units[1]), c.status(1))
	c.gossip()
	require.Equal(t, webUp, c.up(1))
	require.Equal(t, hostKey, c.units[1].read("/var/lib/concourse/keys/tsa_host_key"))
	require.Equal(t, session, c.units[1].read("/var/lib/concourse/keys/session_signing_key"))
	require.Contains(t, c.units[1].read("/var/lib/concourse/config.env"), password)
	for _, k := range []int{0, 2} {
		require.Equal(t, workerUp, c.up(k), c.units[k].Model.Unit)
		require.Equal(t, "active: Worker ready (v8.2.5)", c.status(k))
		require.Contains(t, c.units[k].read("/var/lib/concourse-worker/worker-config.env"), "CONCOURSE_TSA_HOST=10.0.0.11:2222\n")
	}
	for _, path := range []string{"/var/lib/concourse/config.env", "/var/lib/concourse/keys", "/etc/systemd/system/concourse-server.service"} {
		require.False(t, c.units[0].Root.Exists(path), "the old leader keeps %s", path)
	}
	c.idle()
}

// D33: nothing secret is reported in clear.
func TestD33DatabagsHoldNothingSecret(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, options{"mode": "auto"})
	peers := relationOf(c.units[0], "peers")
	peers.LocalApp = map[string]string{"admin-password": "from-before", "vault-role-secret-id": "s", "upgrade-state": "idle"}
	c.share(0)
	c.begin()
	c.database()
	c.relation(0, "postgresql", "changed", "postgresql/0")
	c.gossip()
	a := c.units[0].action("get-admin-password", nil)
	require.Equal(t, "completed", a.Status, a.Message)
	require.Equal(t, "from-before", a.Results["password"], "people's password is taken over")
	for _, u := range c.units {
		for _, r := range u.Model.Relations {
			for _, bag := range []map[string]string{r.Local, r.LocalApp} {
				for key, value := range bag {
					require.NotContains(t, value, "PRIVATE KEY", key)
					require.NotContains(t, value, "from-before", key)
					require.NotContains(t, key, "vault-role")
					require.NotContains(t, key, "upgrade-state")
				}
			}
		}
	}
}
