package hooks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// network is several applications, and the hooks that follow from what their units report
// each other.
type network struct {
	apps []*cluster
	seen map[string]map[string]string // by unit, relation and remote unit
	ran  []string                     // hooks of settle
	// down are the units with hooks that wait.
	down map[string]bool
}

func networkOf(apps ...*cluster) *network {
	n := &network{apps: apps, seen: map[string]map[string]string{}, down: map[string]bool{}}
	for _, c := range apps {
		c.net = n
	}
	return n
}

// flight relates a worker application to a web.
func (n *network) flight(web, workers *cluster) {
	for _, u := range web.units {
		u.Model.Relate(10, "tsa", workers.units[0].Model.App())
	}
	for _, u := range workers.units {
		u.Model.Relate(10, "flight", web.units[0].Model.App())
	}
	n.share(web, workers)
}

// share provides the bags of tsa and flight to the other side.
func (n *network) share(web, workers *cluster) {
	for _, a := range web.units {
		for _, b := range workers.units {
			tsa, flight := find(a, "tsa", b.Model.App()), find(b, "flight", a.Model.App())
			if tsa == nil || flight == nil {
				continue
			}
			tsa.Units[b.Model.Unit], flight.Units[a.Model.Unit] = maps.Clone(flight.Local), maps.Clone(tsa.Local)
		}
	}
}

func find(u *unit, endpoint, app string) *jujutest.Relation {
	i := slices.IndexFunc(u.Model.Relations, func(r *jujutest.Relation) bool { return r.Endpoint == endpoint && r.RemoteApp == app })
	if i < 0 {
		return nil
	}
	return u.Model.Relations[i]
}

func (n *network) shareAll() {
	for _, a := range n.apps {
		for k := range a.units {
			if a.units[k].Model.Leader {
				a.share(k)
			}
		}
		for _, b := range n.apps {
			n.share(a, b)
		}
	}
}

// settle runs the hooks that Juju would until no one has news, and returns what they ran on
// the machines. That it ends is part of every test that calls it.
func (n *network) settle() (commands []string) {
	t := n.apps[0].t
	t.Helper()
	n.shareAll()
	for range 12 {
		before := len(n.ran)
		for _, c := range n.apps {
			for _, u := range c.units {
				if n.down[u.Model.Unit] {
					continue
				}
				commands = append(commands, n.news(u)...)
			}
		}
		if len(n.ran) == before {
			return commands
		}
	}
	require.Fail(t, "the units never have nothing to tell each other", "%s", strings.Join(n.ran[len(n.ran)-30:], "\n"))
	return nil
}

// news runs the hooks of one unit.
func (n *network) news(u *unit) (commands []string) {
	run := func(name string, e juju.Event) {
		r, err := u.Event(e)
		u.fine(name, r, err)
		n.ran = append(n.ran, u.Model.Unit+" "+name)
		for _, c := range r.Commands {
			commands = append(commands, u.Model.Unit+" "+c)
		}
		n.shareAll()
	}
	for i := 0; i < len(u.Model.Relations); i++ {
		r := u.Model.Relations[i]
		if !slices.Contains([]string{"peers", "tsa", "flight"}, r.Endpoint) {
			continue
		}
		hear := func(remote string, bag map[string]string) {
			at := u.Model.Unit + " " + r.Name() + " " + remote
			was, met := n.seen[at]
			if met && maps.Equal(was, bag) {
				return
			}
			n.seen[at] = maps.Clone(bag)
			if !met && remote != "" {
				run(r.Name()+" joined "+remote, jujutest.RelationHook(r, "joined", remote))
			}
			run(r.Name()+" changed "+remote, jujutest.RelationHook(r, "changed", remote))
		}
		for _, remote := range slices.Sorted(maps.Keys(r.Units)) {
			hear(remote, maps.Clone(r.Units[remote]))
		}
		if r.Endpoint == "peers" && !u.Model.Leader && len(r.LocalApp) > 0 {
			hear("", maps.Clone(r.LocalApp))
		}
	}
	for _, s := range slices.Clone(u.Model.Secrets) {
		if s.Tracked == 0 || s.Tracked == len(s.Revisions) || s.Owner == u.Model.App() && u.Model.Leader {
			continue
		}
		run("secret-changed "+s.ID, juju.Event{Name: "secret-changed", SecretID: "secret:" + s.ID})
	}
	return commands
}

// leave ends the relation of tsa and flight between two applications.
func (n *network) leave(web, workers *cluster) {
	for _, side := range []struct {
		c, other *cluster
		endpoint string
	}{{workers, web, "flight"}, {web, workers, "tsa"}} {
		for _, u := range side.c.units {
			r := find(u, side.endpoint, side.other.units[0].Model.App())
			for _, remote := range slices.Sorted(maps.Keys(r.Units)) {
				n.relationHook(u, r, "departed", remote)
				delete(find(u, side.endpoint, r.RemoteApp).Units, remote)
				delete(n.seen, u.Model.Unit+" "+r.Name()+" "+remote)
			}
			n.relationHook(u, find(u, side.endpoint, r.RemoteApp), "broken", "")
			u.Model.Relations = slices.DeleteFunc(u.Model.Relations, func(o *jujutest.Relation) bool { return o.ID == r.ID })
		}
	}
}

func (n *network) relationHook(u *unit, r *jujutest.Relation, kind, remote string) sandbox.Result {
	u.t.Helper()
	res, err := u.RelationHook(r, kind, remote)
	return u.fine(fmt.Sprintf("%s %s %s", r.Name(), kind, remote), res, err)
}

// goes takes the last unit of an application away, as juju remove-unit does.
func (n *network) goes(c *cluster) *unit {
	c.t.Helper()
	u := c.units[len(c.units)-1]
	c.units = c.units[:len(c.units)-1]
	for _, other := range n.apps {
		for _, o := range other.units {
			for _, r := range slices.Clone(o.Model.Relations) {
				if _, there := r.Units[u.Model.Unit]; !there {
					continue
				}
				n.relationHook(o, r, "departed", u.Model.Unit)
				delete(o.Model.Relations[slices.IndexFunc(o.Model.Relations, func(x *jujutest.Relation) bool { return x.ID == r.ID })].Units, u.Model.Unit)
			}
		}
	}
	u.hook("stop")
	u.hook("remove")
	return u
}

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
