package hooks

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// withProxy relates all units to HAProxy, which has not answered yet.
func (c *cluster) withProxy(endpoint string) {
	for k, u := range c.units {
		u.Model.Relate(15, endpoint, "haproxy")
		c.relation(k, endpoint, "created")
	}
}

// answer is what HAProxy publishes, seen by all units.
func (c *cluster) answer(endpoint, urls string) {
	for k, u := range c.units {
		relationOf(u, endpoint).AppData = map[string]string{"endpoints": urls}
		c.relation(k, endpoint, "changed")
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
	c.withProxy("haproxy-route")
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

	c.answer("haproxy-route", `["https://proxy.example.com/web"]`)
	require.Contains(t, c.status(0), "haproxy-route: endpoints: it has")
	require.Equal(t, before, leader.read(webEnvFile))
	c.answer("haproxy-route", `["https://proxy.example.com/"]`)
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
	c.withProxy("haproxy-route")
	r := relationOf(c.units[0], "haproxy-route")
	require.NotContains(t, r.LocalApp, "hosts")
	require.Equal(t, `"ci.example.com"`, r.LocalApp["hostname"])
	require.Equal(t, "true", r.LocalApp["allow_http"])
	c.answer("haproxy-route", `["https://ci.example.com/"]`)
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

// The page's URL is the proxy's in the catalogue, in alerts and for workers, as long as the
// proxy serves it.
func TestFleetPageIsBehindItsProxy(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, options{"mode": "web", "enable-metrics": true, "external-url": "https://ci.example.com"})
	c.begin()
	c.database()
	c.gossip()
	leader := c.units[0]
	leader.Model.Relate(9, "catalogue", "catalogue")
	leader.Model.Relate(8, "monitoring", "prometheus").Units = map[string]map[string]string{"prometheus/0": {}}
	c.relation(0, "monitoring", "joined", "prometheus/0")
	page := func(url string) {
		t.Helper()
		require.Equal(t, url, relationOf(leader, "catalogue").LocalApp["url"])
		require.Contains(t, relationOf(leader, "monitoring").LocalApp["alert_rules"], `"fleet_url":"`+url+`"`)
		require.Contains(t, leader.read("/etc/concourse-ci-machine/fleet.json"), `"page": "`+url+`"`)
		c.idle()
	}
	c.withProxy("fleet-route")
	page("http://10.0.0.10:9358/")
	bag := relationOf(leader, "fleet-route").LocalApp
	require.Equal(t, `["/fleet"]`, bag["paths"])
	require.Equal(t, `"ci.example.com"`, bag["hostname"])
	require.Equal(t, "[9358]", bag["ports"])
	require.Equal(t, `"test-concourse-ci-machine_fleet"`, bag["service"])
	for key, value := range bag {
		require.NotContains(t, []string{"", `""`}, value, "%s: HAProxy refuses its whole configuration", key)
	}
	for k, u := range c.units {
		require.Equal(t, fmt.Sprintf(`"10.0.0.%d"`, 10+k), relationOf(u, "fleet-route").Local["address"])
		require.Contains(t, c.status(k), "fleet-route: haproxy has no URL")
	}
	c.answer("fleet-route", `["https://ci.example.com/"]`)
	require.Contains(t, c.status(0), "fleet-route: endpoints: want")
	page("http://10.0.0.10:9358/")
	c.answer("fleet-route", `["https://ci.example.com/fleet"]`)
	require.NotContains(t, c.status(0), "fleet-route")
	page("https://ci.example.com/fleet/")

	for k, u := range c.units {
		u.set(options{"fleet-page": "off"})
		c.hook(k, "config-changed")
		require.Contains(t, c.status(k), "fleet-route: the fleet page is off")
	}
	require.Empty(t, relationOf(leader, "fleet-route").LocalApp)
	require.Empty(t, relationOf(leader, "catalogue").LocalApp)
	for k, u := range c.units {
		u.set(options{"fleet-page": "names"})
		c.hook(k, "config-changed")
	}
	page("https://ci.example.com/fleet/")
	c.unrelate("fleet-route")
	page("http://10.0.0.10:9358/")
}
