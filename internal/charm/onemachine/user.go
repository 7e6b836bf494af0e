package onemachine

import (
	"context"
	"errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// ownUser makes the user of the web, and records it before. A user with a group that existed is not
// recorded, because userdel would remove the group too.
type ownUser struct{ m *Model }

// Diff implements plan.Resource.
func (o ownUser) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	p, err := resource.User{Name: concourse.WebUser, Home: release.HomeDir}.Diff(ctx, h)
	if err != nil || len(p) == 0 {
		return nil, err
	}
	hasGroup, err := resource.GroupExists(h.Root, concourse.WebUser)
	if err != nil {
		return nil, err
	}
	do := p[0].Do
	p[0].Do = func(ctx context.Context) error {
		o.m.state.OwnUser = !hasGroup
		if err := o.m.Save(); err != nil {
			return err
		}
		err := do(ctx)
		if err != nil {
			o.m.state.OwnUser = false // the operator may make one
			err = errors.Join(err, o.m.Save())
		}
		return err
	}
	return p, nil
}

// noUser removes the user of the web.
type noUser struct{}

// Diff implements plan.Resource.
func (noUser) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if exists, err := resource.UserExists(h.Root, concourse.WebUser); err != nil || !exists {
		return nil, err
	}
	return plan.Plan{{Op: "remove user " + concourse.WebUser, Why: purged, Do: func(ctx context.Context) error {
		_, err := h.Run(ctx, host.Command{Argv: []string{"userdel", concourse.WebUser}, Deadline: sqlTime})
		return err
	}}}, nil
}
