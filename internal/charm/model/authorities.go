package model

import (
	"context"

	jujuerrors "github.com/juju/errors"
)

// Authorities holds the relations that provide certificates of authorities to trust.
type Authorities struct {
	Relations []Relation `json:"relations,omitempty"`
	Leader    bool       `json:"leader,omitempty"` // only known with such a relation
}

// authorities reads the relations. Without a relation it runs one hook tool.
func (o *observer) authorities(ctx context.Context) (a Authorities, err error) {
	ids, err := o.relations(ctx, receiveCACerts)
	if err != nil || len(ids) == 0 {
		return a, err
	}
	if o.leader, err = o.t.IsLeader(ctx); err != nil {
		return a, err
	}
	a.Leader = o.leader
	for _, id := range ids {
		r, err := o.first(ctx, receiveCACerts, []string{id})
		if err != nil {
			return a, err
		}
		if r == nil {
			continue
		}
		// An older provider publishes in the databags of its units.
		if _, newer := r.Remote["certificates"]; !newer {
			if r.Units, err = o.bags(ctx, id); err != nil {
				return a, jujuerrors.Annotatef(err, "cannot observe relation %s", id)
			}
		}
		a.Relations = append(a.Relations, *r)
	}
	return a, nil
}
