package hooks

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// cluster is one application of several units. What one unit's hook reported is seen by the
// others when it ended, as with Juju.
type cluster struct {
	t     *testing.T
	units []*unit
	pg    *sandbox.Postgres
	net   *network // nil: no other program is there
}

const userSecret = "secret:d2user0000000000000g"

func newCluster(t *testing.T, n int, set options) *cluster {
	t.Helper()
	return newApp(t, "concourse-ci-machine", "10.0.0", n, set)
}

// newApp is newCluster for an application of another name, in its own network.
func newApp(t *testing.T, app, network string, n int, set options) *cluster {
	t.Helper()
	c := &cluster{t: t}
	var err error
	c.pg, err = sandbox.NewPostgres()
	require.NoError(t, err)
	t.Cleanup(func() { c.pg.Close() }) // a test may have done so
	for i := range n {
		w, err := sandbox.New(sandbox.Options{Host: fixture("no-gpu"), Charm: charmDir(), Main: runDispatch, Exe: tools(), Unit: fmt.Sprintf("%s/%d", app, i)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, w.Close()) })
		w.Model.Resources = map[string]string{"concourse-release": releaseTarball("8.2.5")}
		w.Model.Leader = i == 0
		w.Model.Address = fmt.Sprintf("%s.%d", network, 10+i)
		u := &unit{World: w, t: t}
		u.set(options{"web-port": w.Machine.WebPort()})
		u.set(set)
		u.giveKey()
		w.Model.Relate(1, "peers", app)
		c.units = append(c.units, u)
	}
	c.share(0)
	return c
}

func relationOf(u *unit, endpoint string) *jujutest.Relation {
	i := slices.IndexFunc(u.Model.Relations, func(r *jujutest.Relation) bool { return r.Endpoint == endpoint })
	require.GreaterOrEqual(u.t, i, 0, endpoint)
	return u.Model.Relations[i]
}

// share gives the others what unit k reported.
func (c *cluster) share(k int) {
	from := c.units[k]
	for i, u := range c.units {
		r := relationOf(u, "peers")
		for j, other := range c.units {
			if i != j {
				r.Units[other.Model.Unit] = maps.Clone(relationOf(other, "peers").Local)
			}
		}
		if i == k {
			continue
		}
		r.LocalApp = maps.Clone(relationOf(from, "peers").LocalApp)
		for _, s := range from.Model.Secrets {
			if s.Owner != from.Model.App() {
				continue
			}
			at := slices.IndexFunc(u.Model.Secrets, func(o *jujutest.Secret) bool { return o.ID == s.ID })
			if at < 0 {
				u.Model.Secrets = append(u.Model.Secrets, &jujutest.Secret{ID: s.ID, Label: s.Label, Owner: s.Owner, Revisions: slices.Clone(s.Revisions)})
				continue
			}
			u.Model.Secrets[at].Revisions = slices.Clone(s.Revisions)
		}
	}
}

func (c *cluster) hook(k int, name string) sandbox.Result {
	c.t.Helper()
	r := c.units[k].hook(name)
	c.share(k)
	return r
}

// relation runs a relation's hook for every unit of the other side in remotes,
// once with none.
func (c *cluster) relation(k int, endpoint, kind string, remotes ...string) (r sandbox.Result) {
	c.t.Helper()
	if len(remotes) == 0 {
		remotes = []string{""}
	}
	for _, remote := range remotes {
		var err error
		r, err = c.units[k].RelationHook(relationOf(c.units[k], endpoint), kind, remote)
		c.units[k].fine(endpoint+"-relation-"+kind, r, err)
		c.share(k)
	}
	return r
}

// unrelate ends a relation on every unit.
func (c *cluster) unrelate(endpoint string) {
	c.t.Helper()
	for k, u := range c.units {
		c.relation(k, endpoint, "broken")
		unrelate(u, endpoint)
	}
}

// unrelate is the unit once the hook relation-broken has run.
func unrelate(u *unit, endpoint string) {
	u.Model.Relations = slices.DeleteFunc(u.Model.Relations, func(r *jujutest.Relation) bool { return r.Endpoint == endpoint })
}

// gossip lets every unit hear of every other one until none has news.
func (c *cluster) gossip() {
	c.t.Helper()
	for range 2 {
		for k := range c.units {
			for j, other := range c.units {
				if j != k {
					c.relation(k, "peers", "changed", other.Model.Unit)
				}
			}
		}
	}
}

// database relates all units to PostgreSQL, with credentials.
func (c *cluster) database() {
	c.t.Helper()
	for _, u := range c.units {
		r := u.Model.Relate(4, "postgresql", "postgresql")
		r.Units = map[string]map[string]string{"postgresql/0": {}}
		r.AppData = map[string]string{"database": "concourse", "endpoints": c.pg.Address(), "secret-user": userSecret}
		u.Model.Secrets = append(u.Model.Secrets, &jujutest.Secret{ID: strings.TrimPrefix(userSecret, "secret:"), Owner: "postgresql", Granted: true,
			Revisions: []map[string]string{{"username": "relation_4", "password": "pw"}}})
	}
}

func (c *cluster) status(k int) string {
	s := c.units[k].Model.Status()
	return s.Status + ": " + s.Message
}

func (c *cluster) up(k int) []string {
	var up []string
	for _, name := range []string{"concourse-server.service", "concourse-worker.service"} {
		if c.units[k].Machine.Up(name) {
			up = append(up, name)
		}
	}
	return up
}

func url(u *unit) string {
	return "http://" + net.JoinHostPort(u.Model.Address, strconv.Itoa(u.Machine.WebPort()))
}

var (
	webUp    = []string{"concourse-server.service"}
	workerUp = []string{"concourse-worker.service"}
)

func (c *cluster) begin() {
	c.t.Helper()
	for k := range c.units {
		c.hook(k, "install")
		c.relation(k, "peers", "created")
		if c.units[k].Model.Leader {
			c.hook(k, "leader-elected")
		}
		c.hook(k, "config-changed")
		c.hook(k, "start")
	}
}

// idle is that no one has anything left to do.
func (c *cluster) idle() {
	c.t.Helper()
	for k, u := range c.units {
		r := c.hook(k, "update-status")
		require.Empty(c.t, r.Plan(), u.Model.Unit)
		require.Empty(c.t, r.Commands, u.Model.Unit)
		for _, call := range r.Calls {
			require.NotContains(c.t, call, "relation-set", u.Model.Unit)
			require.NotContains(c.t, call, "secret-set", u.Model.Unit)
		}
	}
}
