package role

import (
	"context"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
)

// Impossible replaces a desired state that could not be computed. It fails the plan, so that
// nothing is applied.
type Impossible struct{ Err error }

// Diff implements plan.Resource.
func (i Impossible) Diff(context.Context, host.Host) (plan.Plan, error) { return nil, i.Err }

// step describes a resource that is always due in this run.
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

// Series combines several resources into one.
type Series []plan.Resource

// Diff implements plan.Resource.
func (s Series) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	return plan.Diff(ctx, h, s...)
}

// Starts reports whether this run starts a unit that should run. A unit that already runs,
// or is about to, was started with an earlier state of its files.
func Starts(s resource.UnitState) bool { return !s.Running() && s.Active != "activating" }

// Tolerated returns a step that is always due in this run and may fail. A failure is a note.
func Tolerated(op, why string, do func(context.Context, host.Host) error) plan.Resource {
	return step{plan.Step{Op: op, Why: why, Tolerate: true}, do}
}

// StepOf returns a step that is always due in this run.
func StepOf(op, why string, do func(context.Context, host.Host) error) plan.Resource {
	return step{plan.Step{Op: op, Why: why}, do}
}

// WebSettleTime is how long a hook waits for a web that it started. The web prepares the
// database first.
const WebSettleTime = 60 * time.Second

// A started worker needs 4 to 6 s until it is registered. A worker that lost its web retries
// every 5 s. A hook waits that long, so that the status is right before the next
// update-status.
const (
	SettleTime = 15 * time.Second
	SettlePoll = 500 * time.Millisecond
)
