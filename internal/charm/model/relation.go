package model

import (
	"context"
	"errors"
	"slices"
	"strings"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
)

// Relation holds one relation of this unit, with the data that its endpoint needs.
type Relation struct {
	ID     string            `json:"id"`                // "postgresql:4"
	App    string            `json:"app,omitempty"`     // remote application
	Remote map[string]string `json:"remote,omitempty"`  // databag of App; of a peer relation, of this application
	Own    map[string]string `json:"own"`               // databag of this unit
	OwnApp map[string]string `json:"own_app,omitempty"` // databag of this application, if this unit leads
	// Units has the databags of the remote units, for endpoints that need them.
	Units map[string]map[string]string `json:"units,omitempty"`
	// Secrets has the readable secrets of the remote databag, by id.
	Secrets map[string]map[string]string `json:"secrets,omitempty"`
}

// relations lists the relations of an endpoint, without one that is ending.
func (o *observer) relations(ctx context.Context, endpoint string) ([]string, error) {
	ids, err := o.t.RelationIDs(ctx, endpoint)
	if err != nil {
		return nil, jujuerrors.Annotatef(err, "cannot observe the relations of %s", endpoint)
	}
	return slices.DeleteFunc(ids, func(id string) bool {
		return o.e.Name == endpoint+"-relation-broken" && o.ofHook(id)
	}), nil
}

// link reads the databags of an endpoint's first relation. It returns nil without a
// relation.
func (o *observer) link(ctx context.Context, endpoint string) (*Relation, error) {
	ids, err := o.relations(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return o.first(ctx, endpoint, ids)
}

// joined reads this unit's databags of these relations. It leaves out a relation that the unit
// has not entered yet, because a later hook has it. It also leaves out a relation that was
// removed with --force: Juju lists it until the unit's agent restarts, runs no hook of it, and
// refuses all its databags. The own databag is never refused otherwise.
func (o *observer) joined(ctx context.Context, ids []string) (all []Relation, err error) {
	for _, id := range ids {
		own, err := o.t.RelationGet(ctx, id, o.e.Unit)
		switch {
		case errors.Is(err, juju.ErrPermission):
			o.forced = append(o.forced, id)
		case errors.Is(err, juju.ErrNotFound):
		case err != nil:
			return nil, jujuerrors.Annotatef(err, "cannot observe relation %s", id)
		default:
			all = append(all, Relation{ID: id, Own: own})
		}
	}
	return all, nil
}

// first reads the databags of the first of these relations.
func (o *observer) first(ctx context.Context, endpoint string, ids []string) (*Relation, error) {
	all, err := o.joined(ctx, ids)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	l := &all[0]
	if endpoint == peers {
		l.App = o.e.App()
	} else {
		l.App, err = o.t.RelationRemoteApp(ctx, l.ID)
	}
	if err == nil {
		l.Remote, err = o.t.RelationGetApp(ctx, l.ID, l.App)
	}
	if err == nil && o.leader && endpoint != peers {
		l.OwnApp, err = o.t.RelationGetApp(ctx, l.ID, o.e.App())
	}
	return l, jujuerrors.Annotatef(err, "cannot observe relation %s", l.ID)
}

// secrets reads the secrets of the remote databag. A refused secret is left out, because a
// later hook has the grant. Any other failure ends the hook, which Juju runs again: a web
// must not stop because the controller does not answer.
func (o *observer) secrets(ctx context.Context, l *Relation, ids []string) error {
	for _, id := range ids {
		content, err := o.secret(ctx, id)
		if juju.SecretRefusal(err) != "" {
			continue
		}
		if err != nil {
			return jujuerrors.Annotatef(err, "cannot read the secret of %s", l.ID)
		}
		if l.Secrets == nil {
			l.Secrets = map[string]map[string]string{}
		}
		l.Secrets[id] = content
	}
	return nil
}

// units lists the remote units of a relation, without one that is departing.
func (o *observer) units(ctx context.Context, id string) ([]string, error) {
	units, err := o.t.RelationUnits(ctx, id)
	return slices.DeleteFunc(units, func(u string) bool {
		return u == o.e.DepartingUnit && o.ofHook(id) && strings.HasSuffix(o.e.Name, "-relation-departed")
	}), err
}

// ofHook reports whether the hook belongs to this relation.
func (o *observer) ofHook(id string) bool { return o.e.Relation != nil && o.e.Relation.ID == id }

// bags reads the databags of all remote units that still exist.
func (o *observer) bags(ctx context.Context, id string) (map[string]map[string]string, error) {
	units, err := o.units(ctx, id)
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]string{}
	for _, u := range units {
		bag, exists, err := o.bag(ctx, id, u)
		if err != nil {
			return nil, err
		}
		if exists {
			all[u] = bag
		}
	}
	return all, nil
}

// bag reads the databag of a remote unit. Juju may still list a unit that was removed with
// --force.
func (o *observer) bag(ctx context.Context, id, unit string) (bag map[string]string, exists bool, err error) {
	bag, err = o.t.RelationGet(ctx, id, unit)
	if errors.Is(err, juju.ErrPermission) || errors.Is(err, juju.ErrNotFound) {
		return nil, false, nil
	}
	return bag, err == nil, err
}

// ownBags selects databags of this side of a relation.
type ownBags string

const (
	unitOnly   ownBags = "unit"
	unitAndApp ownBags = "unit and application" // only the leader can read the latter
)

// entered reads own databags of relations.
func (o *observer) entered(ctx context.Context, ids []string, which ownBags) ([]Relation, error) {
	all, err := o.joined(ctx, ids)
	for i := 0; err == nil && which == unitAndApp && i < len(all); i++ {
		all[i].OwnApp, err = o.t.RelationGetApp(ctx, all[i].ID, o.e.App())
		err = jujuerrors.Annotatef(err, "cannot observe relation %s", all[i].ID)
	}
	return all, err
}
