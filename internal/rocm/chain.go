package rocm

import (
	"context"
	"errors"
	"fmt"

	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/resource"
)

// ErrSkipped is the error of a step that was not tried, because one that it
// needs failed before it and was tolerated. It deserves no note of its own.
var ErrSkipped = errors.New("not tried")

// chain is resources of which each needs those before it. A failure is kept
// for the next hook, with its number, and the rest is not tried.
type chain struct {
	links    []plan.Resource
	tolerate bool
	host     string // of the repository, for texts
	next     Attempt
}

// Diff implements plan.Resource.
func (c chain) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	p, err := plan.Diff(ctx, h, c.links...)
	if err != nil {
		return nil, err
	}
	if len(p) == 0 {
		if !h.Exists(attemptPath) {
			return nil, nil
		}
		return plan.Plan{{Op: "remove " + attemptPath, Why: ToolkitPackage + " is installed",
			Do: func(context.Context) error { return h.Remove(attemptPath) }}}, nil
	}
	var failed error
	for i := range p {
		do, last := p[i].Do, i == len(p)-1
		p[i].Tolerate = c.tolerate
		p[i].Do = func(ctx context.Context) error {
			if failed != nil {
				return fmt.Errorf("%w: %w", ErrSkipped, failed)
			}
			err := do(ctx)
			switch {
			case err != nil && ctx.Err() == nil:
				failed = err
				a := c.next
				a.Time, a.Error, a.Busy = h.Now().UTC(), cause(err, c.host), resource.AptBusy(err)
				return errors.Join(err, a.write(h.Root))
			case err == nil && last:
				return h.Remove(attemptPath)
			}
			failed = err
			return err
		}
	}
	return p, nil
}
