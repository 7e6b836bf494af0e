package model

import "context"

// Route is the relation to a reverse proxy, and this unit's address for it.
type Route struct {
	Relation
	Address string `json:"address,omitempty"` // of the endpoint haproxy-route, "" where Juju knows none
}

// route is asked for by every unit but one of mode=worker: with mode=auto workers tell
// their address, too.
func (o *observer) route(ctx context.Context) (*Route, error) {
	l, err := o.link(ctx, haproxyRoute)
	if err != nil || l == nil {
		return nil, err
	}
	address, _, err := o.address(ctx, haproxyRoute)
	return &Route{Relation: *l, Address: address}, err
}
