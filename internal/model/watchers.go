package model

import "context"

// Watchers are the relations to those who watch the unit, with what they were told.
type Watchers struct {
	Monitoring []Relation `json:"monitoring,omitempty"`
	COSAgent   []Relation `json:"cos_agent,omitempty"`
	Leader     bool       `json:"leader,omitempty"`
	Address    string     `json:"address,omitempty"` // of the endpoint monitoring, "" where Juju knows none
}

// watchers asks two questions where nobody watches the unit.
func (o *observer) watchers(ctx context.Context) (w Watchers, err error) {
	ids, err := o.relations(ctx, monitoring)
	if err != nil {
		return w, err
	}
	if len(ids) > 0 {
		if w.Leader, err = o.t.IsLeader(ctx); err != nil {
			return w, err
		}
		if w.Address, _, err = o.address(ctx, monitoring); err != nil {
			return w, err
		}
	}
	if w.Monitoring, err = o.entered(ctx, ids, w.Leader); err != nil {
		return w, err
	}
	if ids, err = o.relations(ctx, cosAgent); err != nil {
		return w, err
	}
	w.COSAgent, err = o.entered(ctx, ids, false)
	return w, err
}
