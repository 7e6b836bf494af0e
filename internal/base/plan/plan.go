// Package plan is the seam between deciding and acting: a Resource is a piece
// of desired state that can look at a machine and say what is missing; what is
// missing is a Step with its reason; a Plan is the steps in order. A plan can
// be printed or applied. It never decides what is desired.
package plan

import (
	"context"
	"fmt"
	"io"

	"concourse-ci-machine/internal/base/host"
)

// Resource is a piece of desired state. Diff looks only: it runs read-only
// commands at most, and returns the steps that would make it so.
type Resource interface {
	Diff(ctx context.Context, h host.Host) (Plan, error)
}

// Step is one change and the reason it is needed.
type Step struct {
	Op  string // "write /etc/cdi/amd.json"; completes "cannot ..."
	Why string // "missing", "content differs"
	// Disrupts names what running work would notice ("running builds"), empty
	// for a step that nobody notices. The guard decides on it.
	Disrupts string
	// Tolerate makes a failure a note instead of the end of the run: what
	// follows does not need this step.
	Tolerate bool
	Do       func(ctx context.Context) error
}

// Plan is steps in the order in which they have to be done.
type Plan []Step

// Diff collects what is missing of all resources, in order.
func Diff(ctx context.Context, h host.Host, want ...Resource) (Plan, error) {
	var p Plan
	for _, r := range want {
		steps, err := r.Diff(ctx, h)
		if err != nil {
			return nil, err
		}
		p = append(p, steps...)
	}
	return p, nil
}

// Print writes one line a step, or says that there is nothing to do.
func (p Plan) Print(w io.Writer) error {
	if len(p) == 0 {
		_, err := fmt.Fprintln(w, "nothing to do")
		return err
	}
	for i, s := range p {
		if _, err := fmt.Fprintf(w, "%d/%d %s (%s)\n", i+1, len(p), s.Op, s.Why); err != nil {
			return err
		}
	}
	return nil
}

// Note is the failure of a step that was tolerated.
type Note struct {
	Step Step
	Err  error
}

// StepError is the failure that ended a run.
type StepError struct {
	Op  string
	Err error
}

func (e *StepError) Error() string { return fmt.Sprintf("cannot %s: %v", e.Op, e.Err) }
func (e *StepError) Unwrap() error { return e.Err }

// Apply does the steps in order and stops at the first error that its step
// does not tolerate, a *StepError. say, if not nil, hears of each step before it is
// done, "2/5 write /etc/cdi/amd.json (missing)", and of what steps Say.
func (p Plan) Apply(ctx context.Context, say func(text string)) ([]Note, error) {
	if say == nil {
		say = func(string) {}
	}
	ctx = context.WithValue(ctx, follower{}, say)
	var notes []Note
	for i, s := range p {
		say(fmt.Sprintf("%d/%d %s (%s)", i+1, len(p), s.Op, s.Why))
		if err := s.Do(ctx); err != nil {
			if !s.Tolerate {
				return notes, &StepError{s.Op, err}
			}
			notes = append(notes, Note{s, err})
		}
	}
	return notes, nil
}

// follower is what a context of Apply has say under.
type follower struct{}

// Say tells whoever follows Apply how far a long step is.
func Say(ctx context.Context, text string) {
	if say, ok := ctx.Value(follower{}).(func(string)); ok {
		say(text)
	}
}
