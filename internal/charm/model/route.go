package model

import "context"

// Route holds the relation to a reverse proxy, and this unit's address for it.
type Route struct {
	Relation
	Address string `json:"address,omitempty"` // of the endpoint haproxy-route, "" if unknown
}

// route reads the relation to a proxy, except with mode=worker. With mode=auto workers also
// publish their address.
func (o *observer) route(ctx context.Context) (*Route, error) {
	l, err := o.link(ctx, haproxyRoute)
	if err != nil || l == nil {
		return nil, err
	}
	address, _, err := o.address(ctx, haproxyRoute)
	return &Route{Relation: *l, Address: address}, err
}
