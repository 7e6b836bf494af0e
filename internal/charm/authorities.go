package charm

import (
	"context"

	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/relation"
)

// askAuthorities tells providers how this side reads what they give.
func (c *Charm) askAuthorities(ctx context.Context, facts model.Facts) error {
	if !facts.Authorities.Leader {
		return nil
	}
	for _, l := range facts.Authorities.Relations {
		if err := c.bag(ctx, l.ID, true, l.OwnApp, relation.AuthoritiesRequest()); err != nil {
			return err
		}
	}
	return nil
}
