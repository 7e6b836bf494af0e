package quarantine

import (
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// HealthCheckDeadline bounds the time of gpu-health-check. Loading code for a GPU and computing on all
// of its memory takes a minute or two. A test that takes much longer hangs.
const HealthCheckDeadline = 10 * time.Minute

// healthCheckRetry is the pause before a health check that could not run is tried again.
const healthCheckRetry = time.Minute

// HealthCheckEnd is the result of a health check.
type HealthCheckEnd string

// Results of a health check.
const (
	Passed HealthCheckEnd = "passed" // exit status 0
	Failed HealthCheckEnd = "failed" // another exit status, or too late
	NotRun HealthCheckEnd = "not_run"
)

// HealthCheck describes one run of the health check gpu-health-check on a GPU, or an attempt to run it.
type HealthCheck struct {
	Name    string         `json:"gpu"`     // see gpu.Slot
	Command string         `json:"command"` // gpu-health-check as it was then
	Began   time.Time      `json:"began"`
	Ended   time.Time      `json:"ended"`
	End     HealthCheckEnd `json:"end"`              // "" if none has ended
	Exit    int            `json:"exit"`             // exit status; above 128 for a signal
	Late    bool           `json:"late"`             // it did not end in time
	Reason  string         `json:"reason,omitempty"` // why it could not run, in words
	Running bool           `json:"-"`                // one runs now, whatever the result of the last
}

// PendingHealthCheck describes the health check that a GPU needs after its probation.
type PendingHealthCheck struct {
	Due   bool   `json:"due,omitempty"`   // it must start now
	Stuck bool   `json:"stuck,omitempty"` // it could not run, for a reason outside of the GPU
	Text  string `json:"text"`            // for people
}

// DueHealthChecks returns the GPUs with a health check that must start now.
func (r *Record) DueHealthChecks() (names []string) {
	for _, g := range r.GPUs {
		if g.PendingHealthCheck != nil && g.PendingHealthCheck.Due {
			names = append(names, g.Name)
		}
	}
	return names
}

// healthCheckOf returns the last health check of this GPU by the current command.
func (l Look) healthCheckOf(name string) (p HealthCheck) {
	for _, one := range l.HealthChecks {
		if one.Name != name {
			continue
		}
		if p = one; p.Command != l.HealthCheck || p.Began.After(l.At) {
			p = HealthCheck{Running: one.Running}
		}
	}
	return p
}

// isOpen reports whether a task has the GPU open.
func (l Look) isOpen(name string) bool {
	return slices.ContainsFunc(l.GPUs, func(s Reading) bool { return s.Address() == name && len(s.Users) > 0 })
}

// awaitHealthCheck requires a health check after the probation. A passed check is accepted only
// if it began after the probation. A failed one is used if it began after the GPU was
// healthy again.
func (g *GPU) awaitHealthCheck(l Look) {
	p := l.healthCheckOf(g.Name)
	since := p.Began.Sub(g.HealthySince.Add(g.probation()))
	switch {
	case p.Running:
		g.PendingHealthCheck = &PendingHealthCheck{Text: "gpu-health-check runs"}
	case p.End == Failed && !p.Began.Before(g.Since):
		f := health.Fault{Kind: healthCheckFailed, Value: float64(p.Exit)}
		if p.Late {
			f = health.Fault{Kind: healthCheckLate, Limit: HealthCheckDeadline.Seconds()}
		}
		g.recordStrike(f, l.At)
	case p.End == Passed && since >= 0:
		g.move(InService, "healthy for "+g.probation().String()+", and gpu-health-check ended with 0", l.At)
	case p.End == NotRun && since >= 0:
		g.PendingHealthCheck = &PendingHealthCheck{Due: l.At.Sub(p.Ended) >= healthCheckRetry, Stuck: true,
			Text: "gpu-health-check can't be run: " + p.Reason}
	case l.isOpen(g.Name):
		g.PendingHealthCheck = &PendingHealthCheck{Text: "a task still has it open, so gpu-health-check can't begin"}
	default:
		g.PendingHealthCheck = &PendingHealthCheck{Due: true, Text: "gpu-health-check is about to begin"}
	}
}
