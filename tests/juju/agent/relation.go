package agent

import (
	"maps"
	"slices"

	"github.com/juju/errors"
	"github.com/juju/names/v5"

	apiservererrors "github.com/juju/juju/apiserver/errors"
	"github.com/juju/juju/core/life"
	"github.com/juju/juju/rpc/params"
)

// End is one side of a relation.
type End struct{ App, Endpoint, Role, Interface string }

// Relation has one End (role peer) or two (provider and requirer).
type Relation struct {
	ID    int
	Ends  []End
	Dying bool
	// Members are the units in scope, by name; removed units leave their bag behind.
	Members map[string]bool

	bags     map[string]map[string]string // by unit ("db/0") or application ("db")
	versions map[string]int               // of the bags, 0 before the first change
}

// Relate adds a relation. Units of the charm's applications enter its scope with their
// first hook of it, another program's with Join.
func (m *Model) Relate(id int, ends ...End) *Relation {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &Relation{ID: id, Ends: ends, Members: map[string]bool{}, bags: map[string]map[string]string{}, versions: map[string]int{}}
	for _, e := range ends {
		r.bags[e.App] = map[string]string{}
	}
	m.relations = append(m.relations, r)
	return r
}

// Join provides another program's unit into the relation; address "" is none.
func (m *Model) Join(r *Relation, unit, address string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.enter(unit, address)
}

// enter is UniterAPI.EnterScope. A unit that comes again finds its old bag.
func (r *Relation) enter(unit, address string) {
	if r.Members[unit] {
		return
	}
	r.Members[unit] = true
	if r.bags[unit] == nil {
		r.bags[unit] = map[string]string{}
	}
	if address != "" {
		maps.Copy(r.bags[unit], map[string]string{"private-address": address, "ingress-address": address, "egress-subnets": address + "/32"})
	}
}

// Leave takes a unit out of the relation.
func (m *Model) Leave(r *Relation, unit string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(r.Members, unit)
}

// Remove is `juju remove-relation`: it is dying until the last unit had its
// relation-broken.
func (m *Model) Remove(r *Relation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Dying = true
	for name := range r.Members {
		if m.unit(name) == nil {
			delete(r.Members, name)
		}
	}
	m.reap()
}

// RemoveByForce removes a relation like `juju remove-relation --force` and `remove-application
// --force`: the controller forgets it at once, and no unit runs a hook.
func (m *Model) RemoveByForce(r *Relation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Dying = true
	clear(r.Members)
	m.reap()
}

// Tell writes into someone's bag, as their relation-set would; "" removes.
func (m *Model) Tell(r *Relation, who string, kv map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.write(who, kv)
}

func (r *Relation) write(who string, kv map[string]string) {
	bag := r.bags[who]
	if bag == nil {
		bag = map[string]string{}
		r.bags[who] = bag
	}
	changed := false
	for k, v := range kv {
		switch {
		case v == "" && bag[k] != "":
			delete(bag, k)
		case v != "" && bag[k] != v:
			bag[k] = v
		default:
			continue
		}
		changed = true
	}
	if changed {
		r.versions[who]++
	}
}

// Bag is a copy of what a unit or application has reported.
func (m *Model) Bag(r *Relation, who string) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(r.bags[who])
}

// reap forgets relations that are dying and without units, and what was granted
// for as long as they last (state.removeScopedSecretPermissionOps).
func (m *Model) reap() {
	m.relations = slices.DeleteFunc(m.relations, func(r *Relation) bool {
		if !r.Dying || len(r.Members) > 0 {
			return false
		}
		for _, s := range m.secrets {
			maps.DeleteFunc(s.access, func(_ string, a access) bool { return a.scope == r.tag() })
		}
		return true
	})
}

func (r *Relation) peer() bool { return len(r.Ends) == 1 }

func (r *Relation) key() string {
	name := func(e End) string { return e.App + ":" + e.Endpoint }
	if r.peer() {
		return name(r.Ends[0])
	}
	// Requirer first, as state.relationKey.
	a, b := r.Ends[0], r.Ends[1]
	if a.Role == "provider" {
		a, b = b, a
	}
	return name(a) + " " + name(b)
}

func (r *Relation) tag() string { return names.NewRelationTag(r.key()).String() }

// end is the application's own side.
func (r *Relation) end(app string) (End, bool) {
	i := slices.IndexFunc(r.Ends, func(e End) bool { return e.App == app })
	if i < 0 {
		return End{}, false
	}
	return r.Ends[i], true
}

// remote is the application at the other end; the own one for peers.
func (r *Relation) remote(app string) string {
	for _, e := range r.Ends {
		if e.App != app {
			return e.App
		}
	}
	return app
}

func (r *Relation) result(app string) params.RelationResultV2 {
	now := life.Alive
	if r.Dying {
		now = life.Dying
	}
	e, _ := r.end(app)
	out := params.RelationResultV2{Id: r.ID, Key: r.key(), Life: now}
	out.Endpoint.ApplicationName = app
	out.Endpoint.Relation = params.CharmRelation{Name: e.Endpoint, Role: e.Role, Interface: e.Interface, Scope: "global"}
	out.OtherApplication = params.RelatedApplicationDetails{ApplicationName: r.remote(app)}
	return out
}

// readLocalApplication is UniterAPI.readLocalApplicationSettings: peers read
// their application's bag, of other relations the leader alone.
func (u *Unit) readLocalApplication(r *Relation) (map[string]string, error) {
	if !r.peer() && !u.leads() {
		return nil, apiservererrors.ErrPerm
	}
	return r.bags[u.app.Name], nil
}

// readRemote is UniterAPI.ReadRemoteSettings: any unit of the relation's applications,
// present or removed, but never the own one; of applications the one at the other end.
func (u *Unit) readRemote(r *Relation, tag names.Tag) (map[string]string, error) {
	switch tag := tag.(type) {
	case names.UnitTag:
		if _, related := r.end(appOf(tag.Id())); !related || tag.Id() == u.Name {
			return nil, apiservererrors.ErrPerm
		}
		bag, found := r.bags[tag.Id()]
		if !found {
			return nil, errors.NotFoundf("cannot read settings for unit %q in relation %q: unit %q: settings", tag.Id(), r.key(), tag.Id())
		}
		return bag, nil
	case names.ApplicationTag:
		// RelatedEndpoints: the other end; for peers the own application.
		if tag.Id() != r.remote(u.app.Name) {
			return nil, apiservererrors.ErrPerm
		}
		return r.bags[tag.Id()], nil
	}
	return nil, apiservererrors.ErrPerm
}
