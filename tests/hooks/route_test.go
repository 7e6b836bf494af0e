package hooks

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// withProxy relates all units to HAProxy, which has not answered yet.
func (c *cluster) withProxy() {
	for k, u := range c.units {
		u.Model.Relate(15, "haproxy-route", "haproxy")
		c.relation(k, "haproxy-route", "created")
	}
}

// answer is what HAProxy publishes, seen by all units.
func (c *cluster) answer(endpoints string) {
	for k, u := range c.units {
		relationOf(u, "haproxy-route").AppData = map[string]string{"endpoints": endpoints}
		c.relation(k, "haproxy-route", "changed")
	}
}

// With mode=auto requests go to the leader, under the proxy's URL, until the relation goes
// or another unit leads.
func TestTheProxyLeadsToTheLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, nil)
	c.begin()
	c.database()
	c.gossip()
	leader := c.units[0]
	before := leader.read(webEnvFile)
	c.withProxy()
	bag := relationOf(leader, "haproxy-route").LocalApp
	require.Equal(t, `["10.0.0.10"]`, bag["hosts"])
	require.Equal(t, `"test-concourse-ci-machine"`, bag["service"])
	require.Equal(t, fmt.Sprintf("[%d]", leader.Machine.WebPort()), bag["ports"])
	for k, u := range c.units { // HAProxy refuses a relation in which one has none
		require.Equal(t, fmt.Sprintf(`"10.0.0.%d"`, 10+k), relationOf(u, "haproxy-route").Local["address"])
	}
	require.Contains(t, c.status(0), "haproxy-route: haproxy has no")
	require.NotContains(t, c.status(1), "haproxy-route")
	require.Equal(t, before, leader.read(webEnvFile))

	c.answer(`["https://proxy.example.com/web"]`)
	require.Contains(t, c.status(0), "haproxy-route: endpoints: it has")
	require.Equal(t, before, leader.read(webEnvFile))
	c.answer(`["https://proxy.example.com/"]`)
	require.Contains(t, leader.read(webEnvFile), "CONCOURSE_EXTERNAL_URL=https://proxy.example.com\n")
	require.NotContains(t, c.status(0), "haproxy-route")
	stdout, stderr, code := leader.person("plan")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "nothing to do")
	c.idle()

	c.unrelate("haproxy-route")
	require.Equal(t, before, leader.read(webEnvFile))
	c.idle()
}

// With mode=web all units are asked for; an application that stops being a web takes back
// what it asked for.
func TestTheProxyLeadsToAllWebsUntilThereAreNone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, options{"mode": "web", "external-url": "http://ci.example.com"})
	c.begin()
	c.database()
	c.gossip()
	c.withProxy()
	r := relationOf(c.units[0], "haproxy-route")
	require.NotContains(t, r.LocalApp, "hosts")
	require.Equal(t, `"ci.example.com"`, r.LocalApp["hostname"])
	require.Equal(t, "true", r.LocalApp["allow_http"])
	c.answer(`["https://ci.example.com/"]`)
	for k, u := range c.units {
		require.Contains(t, u.read(webEnvFile), "CONCOURSE_EXTERNAL_URL=http://ci.example.com\n")
		require.NotContains(t, c.status(k), "haproxy-route")
	}
	c.idle()
	for k, u := range c.units {
		u.set(options{"mode": "worker"})
		c.hook(k, "config-changed")
		require.NotContains(t, relationOf(u, "haproxy-route").Local, "address")
	}
	require.Empty(t, r.LocalApp)
}
