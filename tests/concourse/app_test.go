//go:build e2e

package concourse

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// app is one application of several units. What one unit's hook reported is seen by the
// others when it ended, as with Juju.
type app struct {
	t     *testing.T
	units []*unit
}

const userSecret = "secret:d2user0000000000000g"

// newApp has a unit for each fixture host; the last is one as LXD's.
func newApp(t *testing.T, release string, set map[string]any, hardware ...string) *app {
	t.Helper()
	a := &app{t: t}
	for n, name := range hardware {
		a.add(newUnit(t, n, name, release, n == len(hardware)-1), set)
	}
	return a
}

func (a *app) add(u *unit, set map[string]any) {
	a.t.Helper()
	for option, value := range set {
		require.NoError(a.t, u.Model.SetConfig(option, value))
	}
	u.Model.Relate(1, "peers", u.Model.App())
	a.units = append(a.units, u)
	a.share(a.units[0])
}

// relate relates all units to PostgreSQL, with credentials.
func (a *app) relate(pg *postgres) {
	for _, u := range a.units {
		r := u.Model.Relate(4, "postgresql", "postgresql")
		r.Units = map[string]map[string]string{"postgresql/0": {}}
		r.AppData = map[string]string{"database": pg.name, "endpoints": pg.address, "secret-user": userSecret}
		u.Model.Secrets = append(u.Model.Secrets, &jujutest.Secret{ID: strings.TrimPrefix(userSecret, "secret:"), Owner: "postgresql", Granted: true,
			Revisions: []map[string]string{{"username": pg.user, "password": pg.password}}})
	}
}

func relationOf(u *unit, endpoint string) *jujutest.Relation {
	i := slices.IndexFunc(u.Model.Relations, func(r *jujutest.Relation) bool { return r.Endpoint == endpoint })
	require.GreaterOrEqual(u.t, i, 0, endpoint)
	return u.Model.Relations[i]
}

// share gives the others what a unit reported.
func (a *app) share(from *unit) {
	for _, u := range a.units {
		r := relationOf(u, "peers")
		for _, other := range a.units {
			if u != other {
				r.Units[other.Model.Unit] = maps.Clone(relationOf(other, "peers").Local)
			}
		}
		if u == from {
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

func (a *app) hook(u *unit, name string) {
	a.t.Helper()
	u.hook(name)
	a.share(u)
}

func (a *app) relation(u *unit, endpoint, kind, remote string) {
	a.t.Helper()
	r, err := u.RelationHook(relationOf(u, endpoint), kind, remote)
	u.fine(endpoint+"-relation-"+kind, r, err)
	a.share(u)
}

// gossip lets every unit hear of every other one until none has news.
func (a *app) gossip() {
	a.t.Helper()
	for range 2 {
		for _, u := range a.units {
			for _, other := range a.units {
				if other != u {
					a.relation(u, "peers", "changed", other.Model.Unit)
				}
			}
		}
	}
}

// lead makes a unit the leader in place of another.
func (a *app) lead(from, to *unit) {
	a.t.Helper()
	from.Model.Leader, to.Model.Leader = false, true
	a.hook(to, "leader-elected")
	a.gossip()
}

// begin deploys the application.
func (a *app) begin() {
	a.t.Helper()
	for _, u := range a.units {
		a.hook(u, "install")
		a.relation(u, "peers", "created", "")
		if u.Model.Leader {
			a.hook(u, "leader-elected")
		}
		a.hook(u, "config-changed")
		a.hook(u, "start")
	}
}

// leaves is that a unit is on its way out: the others' last hook of it.
func (a *app) leaves(gone *unit) {
	a.t.Helper()
	a.units = slices.DeleteFunc(a.units, func(u *unit) bool { return u == gone })
	for _, u := range a.units {
		delete(relationOf(u, "peers").Units, gone.Model.Unit)
		a.relation(u, "peers", "departed", gone.Model.Unit)
	}
}

// password returns the password of the first user.
func (a *app) password() string {
	a.t.Helper()
	password, _ := a.units[0].action("get-admin-password", nil)["password"].(string)
	require.NotEmpty(a.t, password)
	return password
}
