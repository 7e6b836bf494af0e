package role

import (
	"context"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
)

// Impossible is desired state that could not be written down; it fails the
// plan, so that nothing is applied by halves.
type Impossible struct{ Err error }

// Diff implements plan.Resource.
func (i Impossible) Diff(context.Context, host.Host) (plan.Plan, error) { return nil, i.Err }

// step is a resource that is due in this run, whatever the machine is like.
type step struct {
	plan.Step
	do func(context.Context, host.Host) error
}

// Diff implements plan.Resource.
func (s step) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	p := s.Step
	p.Do = func(ctx context.Context) error { return s.do(ctx, h) }
	return plan.Plan{p}, nil
}

// Series is several resources in the place of one.
type Series []plan.Resource

// Diff implements plan.Resource.
func (s Series) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	return plan.Diff(ctx, h, s...)
}

// Starts reports whether a unit that is wanted up is started by this run, with
// all that was written before: one that is up or about to be is not.
func Starts(s resource.UnitState) bool { return !s.Running() && s.Active != "activating" }

// Tolerated returns a step that is due in this run. If it fails, that is a note.
func Tolerated(op, why string, do func(context.Context, host.Host) error) plan.Resource {
	return step{plan.Step{Op: op, Why: why, Tolerate: true}, do}
}

// StepOf is a step that is due in this run.
func StepOf(op, why string, do func(context.Context, host.Host) error) plan.Resource {
	return step{plan.Step{Op: op, Why: why}, do}
}
