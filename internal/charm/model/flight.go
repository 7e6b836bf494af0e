package model

import (
	"context"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/concourse"
)

// flights reads the relations to webs, with the databags of their units.
func (o *observer) flights(ctx context.Context) ([]Relation, error) {
	ids, err := o.relations(ctx, flight)
	if err != nil {
		return nil, err
	}
	var all []Relation
	for _, id := range ids {
		r := Relation{ID: id}
		if r.Units, err = o.bags(ctx, id); err == nil {
			r.Own, err = o.t.RelationGet(ctx, id, o.e.Unit)
		}
		if err != nil {
			return nil, jujuerrors.Annotatef(err, "cannot observe relation %s", id)
		}
		all = append(all, r)
	}
	return all, nil
}

// ChooseTSA returns the first complete web unit of the first relation. With mode=auto the
// web is the leader of the peers, which publishes its address in the application's databag.
func ChooseTSA(f Facts) (t concourse.TSA, problems []string) {
	if f.Mode() == "auto" {
		if f.Peer == nil {
			return t, nil
		}
		return concourse.ParseTSA(f.Peer.Remote)
	}
	if len(f.Flights) == 0 {
		return t, nil
	}
	t, _, problems = concourse.FindTSA(f.Flights[0].Units)
	return t, problems
}
