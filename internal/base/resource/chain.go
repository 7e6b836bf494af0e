package resource

import (
	"context"
	"errors"
	"fmt"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
)

// ErrSkipped is the error of a step that was not tried, because one that it
// needs failed before it and was tolerated. It deserves no note of its own.
var ErrSkipped = errors.New("not tried")

// KeptError is a failure that has its own file, which says more than a note would.
type KeptError struct{ Err error }

func (e *KeptError) Error() string { return e.Err.Error() }

// Unwrap implements the interface of errors.Is and errors.As.
func (e *KeptError) Unwrap() error { return e.Err }

// Chain is resources of which each needs those before it: a key, a source, a
// package. A failure is kept for the next hook, with its number, and the rest
// is not tried.
type Chain struct {
	Links    []plan.Resource
	Tolerate bool
	File     string // where a failed attempt is kept
	Done     string // why it is not kept any more: "<package> is installed"
	Host     string // of the repository, for texts
	Vendor   string // whose key signs the repository, for texts
	Next     Attempt
	// Soon finds failures that may be tried again in the next hook, besides those
	// of a busy apt; nil finds none.
	Soon func(error) bool
}

// Diff implements plan.Resource.
func (c Chain) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	p, err := plan.Diff(ctx, h, c.Links...)
	if err != nil {
		return nil, err
	}
	if len(p) == 0 {
		if !h.Exists(c.File) {
			return nil, nil
		}
		return plan.Plan{{Op: "remove " + c.File, Why: c.Done,
			Do: func(context.Context) error { return h.Remove(c.File) }}}, nil
	}
	var failed error
	for i := range p {
		do, last := p[i].Do, i == len(p)-1
		p[i].Tolerate = c.Tolerate
		p[i].Do = func(ctx context.Context) error {
			if failed != nil {
				return fmt.Errorf("%w: %w", ErrSkipped, failed)
			}
			err := do(ctx)
			switch {
			case err != nil && ctx.Err() == nil:
				failed = err
				a := c.Next
				a.Time, a.Error = h.Now().UTC(), attemptCause(err, c.Host, c.Vendor)
				a.Busy = aptBusy(err) || c.Soon != nil && c.Soon(err)
				a.Unreachable = !a.Busy && unreached(err, c.Host) != ""
				if kept := a.write(h.Root, c.File); kept != nil {
					return errors.Join(err, kept)
				}
				return &KeptError{err}
			case err == nil && last:
				return h.Remove(c.File)
			}
			failed = err
			return err
		}
	}
	return p, nil
}
