package quarantine

import (
	"slices"
	"time"

	"concourse-ci-machine/internal/gpu/health"
)

// ProofDeadline is how long gpu-proof may take. Loading code for a GPU and computing on
// all of its memory takes a minute or two; what takes much longer hangs.
const ProofDeadline = 10 * time.Minute

// proofRetry is how long it is until a proof that could not be run is tried again.
const proofRetry = time.Minute

// ProofEnd is how a proof ended.
type ProofEnd string

// The ends.
const (
	Passed ProofEnd = "passed" // it ended with 0
	Failed ProofEnd = "failed" // with something else, or not in time
	NotRun ProofEnd = "not_run"
)

// Proof is one run of gpu-proof on a GPU, or a try to run it.
type Proof struct {
	Name    string    `json:"gpu"`     // see gpu.Slot
	Command string    `json:"command"` // gpu-proof as it was then
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	End     ProofEnd  `json:"end"`           // "" where none has ended
	Exit    int       `json:"exit"`          // what it ended with; above 128 a signal did it
	Late    bool      `json:"late"`          // it did not end in time
	Why     string    `json:"why,omitempty"` // it could not be run, in words
	Running bool      `json:"-"`             // one is at work now, whatever the last ended with
}

// Await is what a GPU still waits for that was well for long enough.
type Await struct {
	Due   bool   `json:"due,omitempty"`   // its proof is to be begun
	Stuck bool   `json:"stuck,omitempty"` // its proof could not be run, for a reason that is not the GPU's
	Text  string `json:"text"`            // for people
}

// Due names the GPUs whose proof is to be begun.
func (r *Record) Due() (names []string) {
	for _, g := range r.GPUs {
		if g.Await != nil && g.Await.Due {
			names = append(names, g.Name)
		}
	}
	return names
}

// proofOf is what is known of the proof of this name by the command of now.
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

// opened reports whether a task has the GPU open.
func (l Look) opened(name string) bool {
	return slices.ContainsFunc(l.GPUs, func(s Seen) bool { return s.Name == name && len(s.Users) > 0 })
}

// await is a GPU that was well for long enough and has to be proved. A proof counts for
// it if it began after that time; against it, if it began after the GPU was well at all.
func (g *GPU) await(l Look) {
	p := l.proofOf(g.Name)
	since := p.Began.Sub(g.Well.Add(g.trial()))
	switch {
	case p.Running:
		g.Await = &Await{Text: "gpu-proof runs"}
	case p.End == Failed && !p.Began.Before(g.Since):
		f := health.Fault{Kind: proofFailed, Value: float64(p.Exit)}
		if p.Late {
			f = health.Fault{Kind: proofLate, Limit: ProofDeadline.Seconds()}
		}
		g.strike(f, l.At)
	case p.End == Passed && since >= 0:
		g.move(InService, "well for "+g.trial().String()+", and gpu-proof ended with 0", l.At)
	case p.End == NotRun && since >= 0:
		g.Await = &Await{Due: l.At.Sub(p.Ended) >= proofRetry, Stuck: true, Text: "gpu-proof can't be run: " + p.Why}
	case l.opened(g.Name):
		g.Await = &Await{Text: "a task still has it open, so gpu-proof can't begin"}
	default:
		g.Await = &Await{Due: true, Text: "gpu-proof is about to begin"}
	}
}
