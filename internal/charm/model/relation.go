package model

import (
	"context"
	"errors"
	"slices"
	"strings"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/charm/juju"
)

// Relation is one relation of this unit, as far as its endpoint is asked for.
type Relation struct {
	ID     string            `json:"id"`                // "postgresql:4"
	App    string            `json:"app,omitempty"`     // the application at the other end
	Remote map[string]string `json:"remote,omitempty"`  // its bag; of a peer relation, this application's
	Own    map[string]string `json:"own"`               // this unit's bag
	OwnApp map[string]string `json:"own_app,omitempty"` // this application's bag, where this unit leads
	// Units are the bags of the remote units, where they are of interest.
	Units map[string]map[string]string `json:"units,omitempty"`
	// Secrets are those that the remote bag names, by id, as far as they can be
	// read.
	Secrets map[string]map[string]string `json:"secrets,omitempty"`
	More    int                          `json:"more,omitempty"` // relations of the endpoint beside this one
}

// relations lists an endpoint's relations without one that is ending.
func (o *observer) relations(ctx context.Context, endpoint string) ([]string, error) {
	ids, err := o.t.RelationIDs(ctx, endpoint)
	if err != nil {
		return nil, jujuerrors.Annotatef(err, "cannot observe the relations of %s", endpoint)
	}
	return slices.DeleteFunc(ids, func(id string) bool {
		return o.e.Name == endpoint+"-relation-broken" && o.ofHook(id)
	}), nil
}

// link reads the bags of an endpoint's first relation; nil where there is none.
func (o *observer) link(ctx context.Context, endpoint string) (*Relation, error) {
	ids, err := o.relations(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return o.first(ctx, endpoint, ids)
}

// first is link where the endpoint's relations are known.
func (o *observer) first(ctx context.Context, endpoint string, ids []string) (l *Relation, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	l = &Relation{ID: ids[0], More: len(ids) - 1}
	if l.Own, err = o.t.RelationGet(ctx, l.ID, o.e.Unit); errors.Is(err, juju.ErrNotFound) {
		return nil, nil // the unit has not entered the relation yet; a hook follows when it has
	}
	if err == nil && endpoint == peers {
		l.App = o.e.App()
	} else if err == nil {
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

// secrets reads what the remote bag names. One that Juju refuses is left out: it is
// granted in a later hook. Any other failure ends the hook, which Juju runs again:
// a controller that does not answer is no reason to stop a web.
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

// units lists a relation's remote units without one that is leaving.
func (o *observer) units(ctx context.Context, id string) ([]string, error) {
	units, err := o.t.RelationUnits(ctx, id)
	return slices.DeleteFunc(units, func(u string) bool {
		return u == o.e.DepartingUnit && o.ofHook(id) && strings.HasSuffix(o.e.Name, "-relation-departed")
	}), err
}

// ofHook reports whether the hook is about this relation.
func (o *observer) ofHook(id string) bool { return o.e.Relation != nil && o.e.Relation.ID == id }

// bags reads the bags of all remote units.
func (o *observer) bags(ctx context.Context, id string) (map[string]map[string]string, error) {
	units, err := o.units(ctx, id)
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]string{}
	for _, u := range units {
		if all[u], err = o.t.RelationGet(ctx, id, u); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// entered reads this unit's own bags of relations, with app its application's, too.
// One that the unit has not entered yet is left out: a hook follows when it has.
func (o *observer) entered(ctx context.Context, ids []string, app bool) (all []Relation, err error) {
	for _, id := range ids {
		r := Relation{ID: id}
		if r.Own, err = o.t.RelationGet(ctx, id, o.e.Unit); err == nil && app {
			r.OwnApp, err = o.t.RelationGetApp(ctx, id, o.e.App())
		}
		if errors.Is(err, juju.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, jujuerrors.Annotatef(err, "cannot observe relation %s", id)
		}
		all = append(all, r)
	}
	return all, err
}
