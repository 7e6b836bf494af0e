package quarantine

import (
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// ProofDeadline bounds the time of gpu-proof. Loading code for a GPU and computing on all
// of its memory takes a minute or two. A test that takes much longer hangs.
const ProofDeadline = 10 * time.Minute

// proofRetry is the pause before a health check that could not run is tried again.
const proofRetry = time.Minute

// ProofEnd is the result of a health check.
type ProofEnd string

// Results of a health check.
const (
	Passed ProofEnd = "passed" // exit status 0
	Failed ProofEnd = "failed" // another exit status, or too late
	NotRun ProofEnd = "not_run"
)

// Proof describes one run of the health check gpu-proof on a GPU, or an attempt to run it.
type Proof struct {
	Name    string    `json:"gpu"`     // see gpu.Slot
	Command string    `json:"command"` // gpu-proof as it was then
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	End     ProofEnd  `json:"end"`           // "" if none has ended
	Exit    int       `json:"exit"`          // exit status; above 128 for a signal
	Late    bool      `json:"late"`          // it did not end in time
	Reason  string    `json:"why,omitempty"` // why it could not run, in words
	Running bool      `json:"-"`             // one runs now, whatever the result of the last
}

// PendingProof describes the health check that a GPU needs after its probation.
type PendingProof struct {
	Due   bool   `json:"due,omitempty"`   // it must start now
	Stuck bool   `json:"stuck,omitempty"` // it could not run, for a reason outside of the GPU
	Text  string `json:"text"`            // for people
}

// DueProofs returns the GPUs with a health check that must start now.
func (r *Record) DueProofs() (names []string) {
	for _, g := range r.GPUs {
		if g.PendingProof != nil && g.PendingProof.Due {
			names = append(names, g.Name)
		}
	}
	return names
}

// proofOf returns the last health check of this GPU by the current command.
func (l Look) proofOf(name string) (p Proof) {
	for _, one := range l.Proofs {
		if one.Name != name {
			continue
		}
		if p = one; p.Command != l.Proof || p.Began.After(l.At) {
			p = Proof{Running: one.Running}
		}
	}
	return p
}

// isOpen reports whether a task has the GPU open.
func (l Look) isOpen(name string) bool {
	return slices.ContainsFunc(l.GPUs, func(s Reading) bool { return s.Address() == name && len(s.Users) > 0 })
}

// awaitProof requires a health check after the probation. A passed check is accepted only
// if it began after the probation. A failed one is used if it began after the GPU was
// healthy again.
func (g *GPU) awaitProof(l Look) {
	p := l.proofOf(g.Name)
	since := p.Began.Sub(g.HealthySince.Add(g.probation()))
	switch {
	case p.Running:
		g.PendingProof = &PendingProof{Text: "gpu-proof runs"}
	case p.End == Failed && !p.Began.Before(g.Since):
		f := health.Fault{Kind: proofFailed, Value: float64(p.Exit)}
		if p.Late {
			f = health.Fault{Kind: proofLate, Limit: ProofDeadline.Seconds()}
		}
		g.recordStrike(f, l.At)
	case p.End == Passed && since >= 0:
		g.move(InService, "well for "+g.probation().String()+", and gpu-proof ended with 0", l.At)
	case p.End == NotRun && since >= 0:
		g.PendingProof = &PendingProof{Due: l.At.Sub(p.Ended) >= proofRetry, Stuck: true,
			Text: "gpu-proof can't be run: " + p.Reason}
	case l.isOpen(g.Name):
		g.PendingProof = &PendingProof{Text: "a task still has it open, so gpu-proof can't begin"}
	default:
		g.PendingProof = &PendingProof{Due: true, Text: "gpu-proof is about to begin"}
	}
}
