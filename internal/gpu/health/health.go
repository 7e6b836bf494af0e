// Package health judges one GPU by a reading. It is a pure function of that State: it reads
// nothing and stores nothing. Faults are typed values; only their Text method turns them into words.
//
// Each gate alone makes a GPU critical and limits its score to 30, because no average may
// hide it:
//
//   - the GPU hangs or does not answer (score 0)
//   - no program of the machine can compute on it (score 0)
//   - it has had an uncorrectable memory error since the driver was loaded
//   - it has bad memory pages
//
// Otherwise the score, 0 to 100, is the weighted mean of the components with values. The
// weights of the other components are distributed over these:
//
//	errors       .25  deferred: 1 or more 70, 10 or more 40
//	                  correctable: 1 or more 90, 100 or more 70, 1000 or more 40
//	temperature  .20  as a share of the sensor's critical temperature:
//	                  up to .75 100, falling to 70 at .90, to 30 at 1, and 0 from there;
//	                  of an APU, which has none, as a share of apuLimit:
//	                  up to .95 100, falling to 70 at 1 and to 30 at 1.05, and never less
//	throttling   .15  share of time under a thermal limit: 0 100, falling to
//	                  70 at .1, to 30 at .5, to 0 at 1
//	events       .15  hangs and resets in a day: 0 100, 1 70, 2 55, 3 40, 4 25, more 0;
//	                  rings that were reset alone: 1 or more 95, 10 or more 70
//	links        .15  XGMI links that are up: all 100, otherwise 70 times their share
//	pcie         .10  100 times width over maximum, and speed over maximum while
//	                  the GPU is busy (an idle link is slow to save power);
//	                  replays: over .1 a second at most 70, over 1 at most 40;
//	                  1000 corrected errors or a fatal one, also at a port above: at most 70;
//	                  a guest, which sees no port above the GPU, has only faults
//
// The state is the worse of the score's state (healthy from 80, warning from 50) and the
// worst component's state (healthy from 80, warning from 30). A score that contradicts the
// state is lowered to 79 or 49. If errors, temperature and throttling are all unknown, the
// state is unknown without a score: a GPU that reports nothing is not a healthy GPU.
package health

import (
	"math"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
)

// State is the judgement in a word.
type State string

// The states, best first; Unknown has no rank.
const (
	Healthy  State = "healthy"
	Warning  State = "warning"
	Critical State = "critical"
	Unknown  State = "unknown"
)

// Judgement holds the result of Assess.
type Judgement struct {
	State State
	Score float64 // 0 to 100; NaN if the state is Unknown
	// Faults are the defects; for a healthy GPU, the deductions from its score.
	Faults []Fault
	// Checked lists the components with values.
	Checked   []Component
	Suspended bool // most values are missing, which is correct
}

// Assess judges a GPU by a reading.
func Assess(s *reading.State) Judgement {
	var gates []Fault
	if len(s.Hangs.Signals) > 0 {
		gates = append(gates, Fault{Kind: Hang, Signals: s.Hangs.Signals})
	}
	switch {
	case !s.Alive:
		gates = append(gates, Fault{Kind: Unreadable})
	case len(s.Lost) > 0:
		gates = append(gates, Fault{Kind: Unreadable, File: s.Lost[0], Value: float64(len(s.Lost))})
	}
	if s.Compute.Obstacle != "" {
		gates = append(gates, Fault{Kind: NoCompute, Detail: s.Compute.Obstacle})
	}
	if e := s.RAS.Errors; e != nil && e.Uncorrectable > 0 {
		gates = append(gates, Fault{Kind: UncorrectableErrors, Value: float64(e.Uncorrectable)})
	}
	if p := s.RAS.BadPages; p != nil && p.Total() > 0 {
		gates = append(gates, Fault{Kind: BadPages, Value: float64(p.Total())})
	}
	return judge(gates, measure(s), s.Suspended())
}

// Silent judges a GPU with a driver that hangs while reading a file.
func Silent(file string) Judgement {
	return judge([]Fault{{Kind: Hang, Signals: []string{reading.SignalTimeout}}, {Kind: Unreadable, File: file}}, nil,
		false)
}

// judge weighs the parts; the package comment has the rules.
func judge(gates []Fault, parts []part, suspended bool) Judgement {
	j := Judgement{Suspended: suspended}
	mean, weights, worst := 0.0, 0.0, 100.0
	for _, p := range parts {
		mean += Weights[p.component] * p.score
		weights += Weights[p.component]
		worst = math.Min(worst, p.score)
		j.Checked = append(j.Checked, p.component)
	}
	if weights > 0 {
		mean /= weights
	}
	enough := 80.0
	switch {
	case len(gates) > 0:
		j.State, j.Score, j.Faults = Critical, most(gates), gates
		if weights > 0 {
			j.Score = math.Min(mean, j.Score)
		}
	case !j.checked(Errors) && !j.checked(Temperature) && !j.checked(Throttling):
		j.State, j.Score = Unknown, math.NaN()
		return j
	case mean < 50 || worst < 30:
		j.State, j.Score = Critical, math.Min(mean, 49)
	case mean < 80 || worst < 80:
		j.State, j.Score = Warning, math.Min(mean, 79)
	default:
		j.State, j.Score, enough = Healthy, mean, 100
	}
	for _, p := range parts {
		if p.score < enough && p.fault.Kind != "" {
			j.Faults = append(j.Faults, p.fault)
		}
	}
	return j
}

func (j *Judgement) checked(c Component) bool { return slices.Contains(j.Checked, c) }

// most returns the highest score that the gates allow.
func most(gates []Fault) float64 {
	for _, f := range gates {
		if f.Kind == Hang || f.Kind == Unreadable || f.Kind == NoCompute {
			return 0
		}
	}
	return 30
}
