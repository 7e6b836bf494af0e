package resource

import (
	"context"
	"errors"
	"fmt"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
)

// ErrSkipped is the error of a step that did not run, because a required step failed and
// was tolerated. It needs no separate warning.
var ErrSkipped = errors.New("not tried")

// RecordedError is a failure with its own file, which has more details than a warning.
type RecordedError struct{ Err error }

func (e *RecordedError) Error() string { return e.Err.Error() }

// Unwrap implements the interface of errors.Is and errors.As.
func (e *RecordedError) Unwrap() error { return e.Err }

// Chain is a list of resources that each need the ones before: a key, a source, a package.
// A failure is recorded with its number for the next hook, and the remaining resources are
// skipped.
type Chain struct {
	Links    []plan.Resource
	Tolerate bool
	File     string // record of a failed attempt
	Done     string // reason to remove the record: "<package> is installed"
	Host     string // of the repository, for texts
	Vendor   string // owner of the repository's signing key, for texts
	Next     Attempt
	// Soon reports failures that the next hook may try again, in addition to a busy apt.
	// nil reports none.
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
				return &RecordedError{err}
			case err == nil && last:
				return h.Remove(c.File)
			}
			failed = err
			return err
		}
	}
	return p, nil
}
