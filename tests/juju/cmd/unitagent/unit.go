package main

import (
	"maps"
	"strings"

	agent "github.com/juju/juju/concourseagent"
)

// unit is the unit with its model.
type unit struct {
	*agent.Unit
	model    *agent.Model
	app      string
	relation *agent.Relation
}

// start makes the model and the unit in it.
func (m model) start(data, jujuc string) (*unit, error) {
	u := &unit{model: agent.NewModel()}
	u.app, _, _ = strings.Cut(m.Unit, "/")
	app, err := u.model.Deploy(u.app, agent.CharmDir(data, m.Unit))
	if err != nil {
		return nil, err
	}
	maps.Copy(app.Resources, m.Resources)
	if err := u.model.Configure(u.app, m.Options); err != nil {
		return nil, err
	}
	m.Peers.App, m.Remote.Ours.App = u.app, u.app
	u.model.Relate(1, m.Peers)
	if _, err := u.model.Deploy(m.Remote.Theirs.App, ""); err != nil {
		return nil, err
	}
	u.relation = u.model.Relate(7, m.Remote.Theirs, m.Remote.Ours)
	u.model.Join(u.relation, m.Remote.Unit, m.Remote.Address)
	u.model.Tell(u.relation, m.Remote.Unit, m.Remote.Bag)
	if u.Unit, err = u.model.AddUnit(m.Unit, m.Address, data, jujuc); err != nil {
		return nil, err
	}
	u.model.Lead(m.Unit)
	if m.Kept != nil {
		u.Installed()
		u.State, u.Version = m.Kept.State, m.Kept.Version
		u.model.Tell(u.relation, m.Unit, m.Kept.Bag)
	}
	return u, nil
}

func (u *unit) serve(r request) answer {
	var a answer
	tell := func(all ...agent.Ran) {
		for _, one := range all {
			it := ran{Hook: one.Hook, Logs: one.Logs}
			if one.Err != nil {
				it.Err = one.Err.Error()
			}
			a.Ran = append(a.Ran, it)
		}
	}
	switch {
	case r.Hook != "":
		tell(u.Hook(r.Hook))
	case r.Action != "":
		action, one := u.Act(r.Action, r.Params)
		a.Action = action
		tell(one)
	default:
		if r.Set != nil {
			if err := u.model.Configure(u.app, r.Set); err != nil {
				a.Problem = err.Error()
				break
			}
		}
		tell(u.Settle()...)
	}
	a.Status = u.Status
	a.Kept = kept{u.State, u.model.Bag(u.relation, u.Name), u.Version}
	return a
}
