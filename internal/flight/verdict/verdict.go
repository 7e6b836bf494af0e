// Package verdict decides why a task failed. Decide is a pure function from the record of a
// task to a kind and its reasons. It names infrastructure only with a measured sign, and
// never names the task while a sign of infrastructure is in the record.
package verdict

import (
	"cmp"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// Verdict is the result for one task.
type Verdict struct {
	Kind    Kind     `json:"kind"`    // "" for a task that succeeded
	Reasons []Reason `json:"reasons"` // the first decides; the others are further signs
}

// Reason is one rule that found its sign.
type Reason struct {
	Code    string             `json:"code"`
	Kind    Kind               `json:"kind"`
	Cause   bool               `json:"cause"` // it explains the failure alone
	Text    string             `json:"text"`
	Numbers map[string]float64 `json:"numbers,omitempty"`
	GPU     string             `json:"gpu,omitempty"`
	Fix     string             `json:"fix"`
}

// finding is the result of a rule.
type finding struct {
	kind    Kind // "" for the rule's
	cause   bool
	text    string
	numbers map[string]float64
	gpu     string
}

// Decide judges an ended task.
//
//   - A sign that explains the failure alone decides, in the order of the rules.
//   - A weaker sign of infrastructure makes the verdict unknown, and is shown. It decides if
//     the task was stopped from outside, as a timeout does, because it slowed the task down.
//   - Without a sign the exit status decides, and the verdict is the task.
//   - Without an exit status only a cause decides.
func Decide(r *taskrecord.Record) Verdict {
	f := newFacts(r)
	if f.End == nil || f.exit() == 0 {
		return Verdict{Reasons: []Reason{}}
	}
	v := f.decide()
	if f.End.Ending == taskrecord.NoStatus && !v.Reasons[0].Cause { // it may have succeeded
		return Verdict{Reasons: []Reason{}}
	}
	return v
}

// SoFar judges a task that runs by the signs up to now. Its exit status is not known, so the
// verdict is never the task itself, except for a cause such as its memory limit.
func SoFar(r taskrecord.Record, now time.Time) Verdict {
	r.End = &taskrecord.End{Ended: now, Ending: taskrecord.NoStatus}
	v := newFacts(&r).decide()
	v.Reasons = slices.DeleteFunc(v.Reasons, func(r Reason) bool { return r.Code == noRecordCode })
	if len(v.Reasons) == 0 {
		v.Kind = ""
	}
	return v
}

// decide applies the rules.
func (f *facts) decide() (v Verdict) {
	for _, rule := range Rules {
		for _, found := range rule.find(f) {
			one := Reason{Code: rule.Code, Kind: cmp.Or(found.kind, rule.Kind),
				Cause: found.cause || rule.slows && f.stopped(), Text: found.text, Numbers: found.numbers,
				GPU: found.gpu, Fix: rule.Fix}
			if one.Kind == Task {
				one.Kind = f.own()
			}
			if !f.Head.OfConcourse() {
				one.Fix = cmp.Or(rule.FixRun, rule.Fix)
			}
			v.Reasons = append(v.Reasons, one)
		}
	}
	v.order()
	return v
}

// order puts causes first, then signs of infrastructure, and decides the kind.
func (v *Verdict) order() {
	rank := func(r Reason) int {
		switch {
		case r.Cause:
			return 0
		case r.Kind.Infrastructure():
			return 1
		case r.Kind == Unknown: // it only adds to the others
			return 3
		}
		return 2
	}
	slices.SortStableFunc(v.Reasons, func(a, b Reason) int { return cmp.Compare(rank(a), rank(b)) })
	v.Kind = Unknown
	if len(v.Reasons) == 0 {
		v.Reasons = []Reason{}
		return
	}
	if first := v.Reasons[0]; first.Cause || !first.Kind.Infrastructure() {
		v.Kind = first.Kind
	}
}

// EntryOf returns the entry of an ended task.
func EntryOf(r *taskrecord.Record, v Verdict) Entry {
	e := Entry{Handle: r.Head.Handle, Holder: cmp.Or(r.Head.Kind, lease.Task), Title: r.Head.Title,
		Started: r.Head.Started.UTC(), Ended: r.Ended().UTC(), Kind: v.Kind, GPUs: []string{},
		Energy: taskrecord.EnergyOf(r)}
	if r.End != nil {
		e.Exit, e.Clocks = r.End.Exit, r.End.Clocks
	}
	for _, g := range r.Head.GPUs {
		e.GPUs = append(e.GPUs, g.Name)
	}
	if len(v.Reasons) > 0 {
		e.Reason, e.Text = v.Reasons[0].Code, v.Reasons[0].Text
	}
	return e
}
