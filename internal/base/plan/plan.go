// Package plan separates deciding from acting. A Resource is a piece of desired state that
// compares itself with a machine. A Step is one missing change with its reason. A Plan has
// the steps in order, and can be printed or applied. The package never decides the desired
// state.
package plan

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// Resource describes a piece of desired state. Diff returns the steps that are missing on
// the machine. It changes nothing, and runs only read-only commands.
type Resource interface {
	Diff(ctx context.Context, h host.Host) (Plan, error)
}

// Step describes one change with its reason.
type Step struct {
	Op  string // "write /etc/cdi/amd.json"; completes "cannot ..."
	Why string // "missing", "content differs"
	// Disrupts names the affected work ("running builds"). It is empty if the step affects
	// none. The guard decides about disruptive steps.
	Disrupts string
	// Tolerate turns a failure into a warning, because later steps do not need this one.
	// The run continues.
	Tolerate bool
	// Content is the new content of a file, for PrintWithContent. It may be nil.
	Content []byte
	Do      func(ctx context.Context) error
}

// Plan has steps in the order of their execution.
type Plan []Step

// Diff returns the missing steps of all resources, in order.
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

// Print writes one line for each step, or "nothing to do".
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

// PrintWithContent writes each step as Print does, and below it the content of a file that
// it writes.
func (p Plan) PrintWithContent(w io.Writer) error {
	if len(p) == 0 {
		return p.Print(w)
	}
	var b strings.Builder
	for i, s := range p {
		fmt.Fprintf(&b, "%d/%d %s (%s)\n", i+1, len(p), s.Op, s.Why)
		for line := range strings.Lines(string(s.Content)) {
			b.WriteString("    " + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Note records the tolerated failure of a step.
type Note struct {
	Step Step
	Err  error
}

// StepError reports the failure that ended a run.
type StepError struct {
	Op  string
	Err error
}

func (e *StepError) Error() string { return fmt.Sprintf("cannot %s: %v", e.Op, e.Err) }
func (e *StepError) Unwrap() error { return e.Err }

// Apply runs the steps in order and stops at the first error that its step does not
// tolerate, a *StepError. report may be nil. It receives each step before it runs, "2/5
// write /etc/cdi/amd.json (missing)", and the texts of Report.
func (p Plan) Apply(ctx context.Context, report func(text string)) ([]Note, error) {
	if report == nil {
		report = func(string) {}
	}
	ctx = context.WithValue(ctx, follower{}, report)
	var notes []Note
	for i, s := range p {
		report(fmt.Sprintf("%d/%d %s (%s)", i+1, len(p), s.Op, s.Why))
		if err := s.Do(ctx); err != nil {
			if !s.Tolerate {
				return notes, &StepError{s.Op, err}
			}
			notes = append(notes, Note{s, err})
		}
	}
	return notes, nil
}

// follower is the key of report in a context of Apply.
type follower struct{}

// Report reports the progress of a long step to the caller of Apply.
func Report(ctx context.Context, text string) {
	if report, ok := ctx.Value(follower{}).(func(string)); ok {
		report(text)
	}
}
