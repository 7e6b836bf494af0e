package model

import "context"

// Watchers are the relations to those who watch the unit, with what they were told.
type Watchers struct {
	Monitoring []Relation `json:"monitoring,omitempty"`
	COSAgent   []Relation `json:"cos_agent,omitempty"`
	Tracing    *Relation  `json:"tracing,omitempty"`
	Leader     bool       `json:"leader,omitempty"`  // asked where there is monitoring or tracing
	Address    string     `json:"address,omitempty"` // of the endpoint monitoring, "" where Juju knows none
}

// watchers asks three questions where nobody watches the unit.
func (o *observer) watchers(ctx context.Context) (w Watchers, err error) {
	scraped, err := o.relations(ctx, monitoring)
	if err != nil {
		return w, err
	}
	traced, err := o.relations(ctx, tracing)
	if err != nil {
		return w, err
	}
	if len(scraped)+len(traced) > 0 {
		if o.leader, err = o.t.IsLeader(ctx); err != nil {
			return w, err
		}
		w.Leader = o.leader
	}
	if len(scraped) > 0 {
		if w.Address, _, err = o.address(ctx, monitoring); err != nil {
			return w, err
		}
	}
	if w.Monitoring, err = o.entered(ctx, scraped, w.Leader); err != nil {
		return w, err
	}
	if w.Tracing, err = o.first(ctx, tracing, traced); err != nil {
		return w, err
	}
	ids, err := o.relations(ctx, cosAgent)
	if err != nil {
		return w, err
	}
	w.COSAgent, err = o.entered(ctx, ids, false)
	return w, err
}
