package agent

import (
	"maps"
	"slices"

	"github.com/juju/charm/v12/hooks"

	"github.com/juju/juju/core/secrets"
	"github.com/juju/juju/internal/worker/uniter/hook"
)

// due is what the agent keeps of what hooks have reported the charm.
type due struct {
	installed, started bool
	upgrade            bool
	elected, config    bool
	relations          map[int]*told  // by id
	secrets            map[string]int // revision that a secret-changed informed of, by id
}

// told is internal/worker/uniter/relation.State.
type told struct {
	units   map[string]int // versions of the bags
	apps    map[string]int
	pending string // joined, and not changed yet
}

func newDue() due {
	return due{config: true, relations: map[int]*told{}, secrets: map[string]int{}}
}

func (t *told) members() []string { return slices.Sorted(maps.Keys(t.units)) }

// Hook runs a hook that belongs to no relation, whether it is due or not. One
// that fails stays due.
func (u *Unit) Hook(name string) Ran { return u.run(hook.Info{Kind: hooks.Kind(name)}, name) }

// Settle runs the hooks that are due, in the order of Juju's resolvers, until
// none is, or one has failed. The last of what ran may so have an error.
func (u *Unit) Settle() (all []Ran) {
	for {
		next := u.next()
		if next == nil {
			return all
		}
		ran := next.run()
		all = append(all, ran)
		if ran.Err != nil {
			return all
		}
		u.model.mu.Lock()
		next.done()
		u.model.mu.Unlock()
	}
}

// step is one hook that is due, and what is known when it ended well.
type step struct {
	run  func() Ran
	done func()
}

func (u *Unit) simple(kind hooks.Kind, done func()) *step {
	return &step{func() Ran { return u.Hook(string(kind)) }, done}
}

// next is the order of uniter.go: install, relation-created, leader-elected,
// config-changed, start, then relations, peers last, then secrets.
func (u *Unit) next() *step {
	u.model.mu.Lock()
	defer u.model.mu.Unlock()
	d := &u.due
	if d.upgrade {
		return u.simple(hooks.UpgradeCharm, func() { d.upgrade, d.config = false, true })
	}
	if !d.installed {
		return u.simple(hooks.Install, func() { d.installed = true })
	}
	for _, r := range u.model.relations {
		if _, ours := r.end(u.app.Name); ours && d.relations[r.ID] == nil && !r.Dying {
			r.enter(u.Name, u.Address)
			d.relations[r.ID] = &told{units: map[string]int{}, apps: map[string]int{}}
			return u.relation(r, hooks.RelationCreated, "", r.remote(u.app.Name), func() {})
		}
	}
	switch {
	case d.elected:
		return u.simple(hooks.LeaderElected, func() { d.elected = false })
	case d.config:
		return u.simple(hooks.ConfigChanged, func() { d.config = false })
	case !d.started:
		return u.simple(hooks.Start, func() { d.started = true })
	}
	for _, peers := range []bool{false, true} {
		for _, r := range u.model.relations {
			if t := d.relations[r.ID]; t != nil && r.peer() == peers {
				if s := u.nextOf(r, t); s != nil {
					return s
				}
			}
		}
	}
	return u.nextSecret()
}

// nextOf is relationsResolver.nextHookForRelation.
func (u *Unit) nextOf(r *Relation, t *told) *step {
	app := r.remote(u.app.Name)
	if unit := t.pending; unit != "" {
		version := r.versions[unit]
		return u.relation(r, hooks.RelationChanged, unit, app, func() { t.pending, t.units[unit] = "", version })
	}
	present := []string{}
	for name := range r.Members {
		if name != u.Name && appOf(name) == app && !r.Dying {
			present = append(present, name)
		}
	}
	slices.Sort(present)
	for _, name := range t.members() {
		if !slices.Contains(present, name) {
			return u.relation(r, hooks.RelationDeparted, name, app, func() { delete(t.units, name) })
		}
	}
	if r.Dying && !r.peer() {
		return u.relation(r, hooks.RelationBroken, "", app, func() {
			delete(u.due.relations, r.ID)
			delete(r.Members, u.Name)
			u.model.reap()
		})
	}
	if version := r.versions[app]; t.apps[app] != version {
		return u.relation(r, hooks.RelationChanged, "", app, func() { t.apps[app] = version })
	}
	for _, name := range present {
		if _, known := t.units[name]; !known {
			version := r.versions[name]
			return u.relation(r, hooks.RelationJoined, name, app, func() { t.units[name], t.pending = version, name })
		}
	}
	for _, name := range present {
		if version := r.versions[name]; t.units[name] != version {
			return u.relation(r, hooks.RelationChanged, name, app, func() { t.units[name] = version })
		}
	}
	return nil
}

func (u *Unit) relation(r *Relation, kind hooks.Kind, unit, app string, done func()) *step {
	e, _ := r.end(u.app.Name)
	name := e.Endpoint + "-" + string(kind)
	info := hook.Info{Kind: kind, RelationId: r.ID, RemoteUnit: unit, RemoteApplication: app}
	if kind == hooks.RelationDeparted {
		info.DepartingUnit = unit
	}
	if unit != "" {
		name += " " + unit
	}
	return &step{func() Ran { return u.run(info, name) }, done}
}

// nextSecret is secretsResolver.NextOp over consumedSecretsWatcher: a consumer
// hears of revisions after the first, once each, whichever it tracks.
func (u *Unit) nextSecret() *step {
	for _, s := range u.model.secrets {
		c := s.consumers[u.Name]
		if c == nil || c.latest < 2 || u.due.secrets[s.ID] == c.latest || !u.canRead(s) {
			continue
		}
		label, latest := c.label, c.latest
		if label == "" && u.owns(s) {
			label = s.Label // SecretsManagerAPI.getSecretConsumerInfo
		}
		info := hook.Info{Kind: hooks.SecretChanged, SecretURI: (&secrets.URI{ID: s.ID}).String(), SecretRevision: latest, SecretLabel: label}
		return &step{func() Ran { return u.run(info, "secret-changed") }, func() { u.due.secrets[s.ID] = latest }}
	}
	return nil
}

// Refresh is `juju refresh` once the agent has put the new charm into dir's
// place: the unit's next hook is upgrade-charm.
func (m *Model) Refresh(app, dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.apps[app]
	for _, u := range a.units {
		u.due.upgrade = true
	}
	return a.refresh(dir)
}

// Installed makes a unit one that an earlier charm has provided up: install, start and the
// relations' hooks up to now are behind it.
func (u *Unit) Installed() {
	u.model.mu.Lock()
	defer u.model.mu.Unlock()
	u.due.installed, u.due.started, u.due.config, u.due.elected = true, true, false, false
	for _, r := range u.model.relations {
		if _, ours := r.end(u.app.Name); !ours {
			continue
		}
		r.enter(u.Name, u.Address)
		t := &told{units: map[string]int{}, apps: map[string]int{}}
		app := r.remote(u.app.Name)
		t.apps[app] = r.versions[app]
		for name := range r.Members {
			if name != u.Name && appOf(name) == app {
				t.units[name] = r.versions[name]
			}
		}
		u.due.relations[r.ID] = t
	}
}

// RelationHook runs a hook of a relation, whether it is due or not: kind is
// "relation-joined" and its like, unit "" in created and broken.
func (u *Unit) RelationHook(r *Relation, kind, unit string) Ran {
	u.model.mu.Lock()
	s := u.relation(r, hooks.Kind(kind), unit, r.remote(u.app.Name), func() {})
	u.model.mu.Unlock()
	return s.run()
}

// Forget makes the unit one that has seen all units of the relation leave.
func (u *Unit) Forget(r *Relation) {
	u.model.mu.Lock()
	defer u.model.mu.Unlock()
	u.due.relations[r.ID].units = map[string]int{}
}

// CharmDir is the folder of the unit's charm.
func (u *Unit) CharmDir() string { return u.paths.GetCharmDir() }
