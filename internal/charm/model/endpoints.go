package model

import (
	"context"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

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

// Route holds the relation to a reverse proxy, and this unit's address for it.
type Route struct {
	Relation
	Address string `json:"address,omitempty"` // of the endpoint, "" if unknown
}

// route reads the relation to a proxy, except with mode=worker. With mode=auto workers also
// publish their address.
func (o *observer) route(ctx context.Context, endpoint string) (*Route, error) {
	l, err := o.link(ctx, endpoint)
	if err != nil || l == nil {
		return nil, err
	}
	address, _, err := o.address(ctx, endpoint)
	return &Route{Relation: *l, Address: address}, err
}

// flights reads the relations to webs, with the databags of their units.
func (o *observer) flights(ctx context.Context) ([]Relation, error) {
	ids, err := o.relations(ctx, flight)
	if err != nil {
		return nil, err
	}
	all, err := o.joined(ctx, ids)
	for i := 0; err == nil && i < len(all); i++ {
		all[i].Units, err = o.bags(ctx, all[i].ID)
		err = jujuerrors.Annotatef(err, "cannot observe relation %s", all[i].ID)
	}
	return all, err
}

// ownAddress returns the address that the web has of this worker, "" without a web.
func (f Facts) ownAddress() string {
	switch {
	case f.LeaderIsWeb() && f.Peer != nil:
		return f.Peer.Own["ingress-address"]
	case len(f.Flights) > 0:
		return f.Flights[0].Own["ingress-address"]
	}
	return ""
}

// ChooseTSA returns the complete web units of the first relation. With mode=auto or
// all the web is the leader of the peers, which publishes its address in the application's databag.
func ChooseTSA(f Facts) (t concourse.TSA, problems []string) {
	if f.LeaderIsWeb() {
		if f.Peer == nil {
			return t, nil
		}
		return concourse.ParseTSA(f.Peer.Remote)
	}
	if len(f.Flights) == 0 {
		return t, nil
	}
	return concourse.FindTSA(f.Flights[0].Units)
}
