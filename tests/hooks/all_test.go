package hooks

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
)

var bothUp = slices.Concat(webUp, workerUp)

// One unit with mode=all is a whole CI. Its worker registers at its own web without a
// relation, in the hook that gives the web a database.
func TestOneUnitOfModeAllIsAWholeCI(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, options{"mode": "all"})
	c.begin()
	require.Contains(t, c.status(0), "blocked: PostgreSQL database required; and 1 more: ")
	require.Empty(t, c.up(0))

	c.database()
	c.relation(0, "postgresql", "changed", "postgresql/0")
	require.Equal(t, "active: Web server and worker ready (v8.2.5) "+url(c.units[0]), c.status(0))
	require.ElementsMatch(t, bothUp, c.up(0))
	u := c.units[0]
	key := strings.TrimSpace(u.read("/var/lib/concourse-worker/keys/worker_key.pub"))
	require.Contains(t, u.read("/var/lib/concourse/keys/authorized_worker_keys"), key)
	require.Contains(t, u.read("/var/lib/concourse-worker/worker-config.env"), "CONCOURSE_TSA_HOST=127.0.0.1:2222\n")
	c.idle()

	u.set(options{"enable-metrics": "true"})
	c.hook(0, "config-changed")
	for _, layer := range []string{role.JobsLayer, role.ExporterLayer} {
		require.True(t, u.Root.Exists(layer))
	}
	require.True(t, u.Machine.Up(role.PebbleUnit))
	c.idle()

	a := u.action("rotate-keys", map[string]any{"keys": "all"})
	require.Equal(t, "completed", a.Status, a.Message)
	c.hook(0, "update-status")
	require.Contains(t, c.status(0), "active: Web server and worker ready (v8.2.5); ")
	c.idle()
}

// The other units of the application are workers of the leader, as with mode=auto.
func TestOtherUnitsOfModeAllAreWorkers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, options{"mode": "all"})
	c.begin()
	c.database()
	c.relation(0, "postgresql", "changed", "postgresql/0")
	c.gossip()
	require.ElementsMatch(t, bothUp, c.up(0))
	require.Equal(t, workerUp, c.up(1))
	require.Equal(t, "active: Worker ready (v8.2.5)", c.status(1))
	authorized := c.units[0].read("/var/lib/concourse/keys/authorized_worker_keys")
	for _, u := range c.units {
		require.Contains(t, authorized, strings.TrimSpace(u.read("/var/lib/concourse-worker/keys/worker_key.pub")))
	}
	c.idle()
}

// A unit changes between the modes. What a role leaves behind is removed.
func TestModeAllBecomesAWebAndBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, options{"mode": "web"})
	c.begin()
	c.database()
	c.relation(0, "postgresql", "changed", "postgresql/0")
	require.Equal(t, webUp, c.up(0))
	hostKey := c.units[0].read("/var/lib/concourse/keys/tsa_host_key")
	for _, mode := range []string{"all", "web", "all"} {
		c.units[0].set(options{"mode": mode})
		c.hook(0, "config-changed")
		up := bothUp
		if mode == "web" {
			up = webUp
		}
		require.ElementsMatch(t, up, c.up(0), mode)
		require.Equal(t, hostKey, c.units[0].read("/var/lib/concourse/keys/tsa_host_key"))
		c.idle()
	}
	c.hook(0, "stop")
	c.hook(0, "remove")
	require.Empty(t, c.up(0))
}
