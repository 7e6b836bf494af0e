package gpuservice

import (
	"math"
	"slices"
	"strings"

	"concourse-ci-machine/internal/exporter/health"
)

// How the tasks of a GPU ended, against those of its siblings.

const (
	// failures is the fault of a GPU whose tasks end badly more often than its siblings'
	// do: Value of the last Limit of them.
	failures health.Kind = "failed_tasks"
	// maxOutcomes is how many of the last runs of a GPU count, and leastBad how many of
	// them have to have ended badly for the numbers to mean something.
	maxOutcomes = 50
	leastBad    = 3
	// significance is the greatest chance, on a GPU that is like its siblings, of numbers
	// that withhold it.
	significance = 0.005
)

const (
	endedWell  = "."
	endedBadly = "x"
)

// badly reports whether a task ended as one does whose GPU let it down: by abort, which
// is how ROCm ends a process after a fault (134), by another signal of a crash, or ended
// from outside (137, 143), as a build that was aborted or took too long is. A test that
// fails ends otherwise.
func badly(status int) bool { return slices.Contains([]int{134, 135, 136, 137, 139, 143}, status) }

// count adds how a run ended to its GPUs, where it is known. One that had all of them
// tells of none.
func (r *Record) count(run Run) {
	if run.Exit == nil || len(run.GPUs) == len(r.GPUs) {
		return
	}
	letter := endedWell
	if badly(*run.Exit) {
		letter = endedBadly
	}
	for _, u := range run.GPUs {
		if g := r.Find(u.Name); g != nil {
			g.Outcomes += letter
			g.Outcomes = g.Outcomes[max(0, len(g.Outcomes)-maxOutcomes):]
			g.Counted = false
		}
	}
}

// compare withholds GPUs whose tasks end badly where its siblings' do not. It does so for
// no more than half of them.
func (r *Record) compare(l Look) {
	if l.Policy != Auto {
		return
	}
	out := 0
	for _, g := range r.GPUs {
		if g.State != InService && g.Fault != nil && g.Fault.Kind == failures {
			out++
		}
	}
	for i := range r.GPUs {
		g := &r.GPUs[i]
		if g.Counted || g.State != InService || 2*(out+1) > len(r.GPUs) {
			continue
		}
		g.Counted = true
		bad, all := strings.Count(g.Outcomes, endedBadly), len(g.Outcomes)
		otherBad, others := 0, 0
		for k := range r.GPUs {
			if k != i {
				otherBad += strings.Count(r.GPUs[k].Outcomes, endedBadly)
				others += len(r.GPUs[k].Outcomes)
			}
		}
		if bad < leastBad || chance(bad, all, otherBad, others) > significance {
			continue
		}
		g.strike(health.Fault{Kind: failures, Value: float64(bad), Limit: float64(all)}, l.At)
		g.Outcomes = "" // it begins anew when it is back
		out++
	}
}

// chance is Fisher's exact test: how likely it is that of bad+otherBad bad ends in all+others
// runs at least bad fall to one GPU's all runs, if it is like the others.
func chance(bad, all, otherBad, others int) float64 {
	total, allBad := all+others, bad+otherBad
	sum := 0.0
	for k := bad; k <= min(all, allBad); k++ {
		if allBad-k > others {
			continue
		}
		sum += math.Exp(choose(all, k) + choose(others, allBad-k) - choose(total, allBad))
	}
	return min(1, sum)
}

// choose is the logarithm of n over k.
func choose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}
