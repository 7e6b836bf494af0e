package model

import "context"

// Watchers holds the relations to monitoring, with the databags of this side.
type Watchers struct {
	Monitoring []Relation `json:"monitoring,omitempty"`
	COSAgent   []Relation `json:"cos_agent,omitempty"`
	Tracing    *Relation  `json:"tracing,omitempty"`
	Leader     bool       `json:"leader,omitempty"`  // only known with monitoring or tracing
	Address    string     `json:"address,omitempty"` // of the endpoint monitoring, "" if unknown
}

// watchers reads the relations. Without a relation it runs three hook tools.
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
	which := unitOnly
	if w.Leader {
		which = unitAndApp
	}
	if w.Monitoring, err = o.entered(ctx, scraped, which); err != nil {
		return w, err
	}
	if w.Tracing, err = o.first(ctx, tracing, traced); err != nil {
		return w, err
	}
	ids, err := o.relations(ctx, cosAgent)
	if err != nil {
		return w, err
	}
	w.COSAgent, err = o.entered(ctx, ids, unitOnly)
	return w, err
}
