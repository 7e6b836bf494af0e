package charm

import (
	"context"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/relation"
)

// publishRoute asks a reverse proxy to lead to the web, and takes that back where the
// application has none: with mode=worker.
func (c *Charm) publishRoute(ctx context.Context, facts model.Facts, want relation.Route) error {
	l := facts.Route
	if l == nil {
		return nil
	}
	address := l.Address
	if facts.Mode() == "worker" {
		address = ""
	}
	app, err := want.Bag()
	if err != nil {
		return jujuerrors.Annotate(err, "cannot write what is asked of the proxy")
	}
	return c.request(ctx, &l.Relation, facts.Leader, app, relation.RouteUnit(address))
}
