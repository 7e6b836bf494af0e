package quarantine

import (
	"math"
	"slices"
	"strings"

	"concourse-ci-machine/internal/gpu/health"
)

// This file compares how the tasks of a GPU and of its siblings ended.

const (
	// failures is the warning on a GPU with tasks that fail more often than those of its
	// siblings: Value of the last Limit tasks.
	failures health.Kind = "failed_tasks"
	// maxOutcomes is the number of runs of a GPU that are compared. leastBad is the number
	// of failures among them that the comparison needs.
	maxOutcomes = 50
	leastBad    = 3
	// significance is the greatest probability of such numbers, on a GPU that is like its
	// siblings, that is a warning.
	significance = 0.005
)

const (
	endedWell  = "."
	endedBadly = "x"
)

// isBadExit reports whether a task ended as after a GPU fault: by abort, with which ROCm
// ends a process (134), by another crash signal, or by a signal from outside (137, 143), as
// in a build that was aborted or timed out. A failing test ends differently.
func isBadExit(status int) bool { return slices.Contains([]int{134, 135, 136, 137, 139, 143}, status) }

// countOutcome adds a run's outcome to its GPUs, if it is known. A run on all GPUs allows
// no comparison.
func (r *Record) countOutcome(run Run) {
	if run.Exit == nil || len(run.GPUs) == len(r.GPUs) {
		return
	}
	letter := endedWell
	if isBadExit(*run.Exit) {
		letter = endedBadly
	}
	for _, u := range run.GPUs {
		if g := r.Find(u.Name); g != nil {
			g.Outcomes += letter
			g.Outcomes = g.Outcomes[max(0, len(g.Outcomes)-maxOutcomes):]
		}
	}
}

// compareOutcomes warns about GPUs with tasks that fail when those of their siblings do
// not. It quarantines no GPU, because a program that always crashes on the GPU that it
// names looks the same.
func (r *Record) compareOutcomes() {
	allBad, total := 0, 0
	for _, g := range r.GPUs {
		allBad += strings.Count(g.Outcomes, endedBadly)
		total += len(g.Outcomes)
	}
	for i := range r.GPUs {
		g := &r.GPUs[i]
		bad, all := strings.Count(g.Outcomes, endedBadly), len(g.Outcomes)
		if g.Warning = nil; bad >= leastBad && chance(bad, all, allBad-bad, total-all) <= significance {
			g.Warning = &health.Fault{Kind: failures, Value: float64(bad), Limit: float64(all)}
		}
	}
}

// WarningText returns the warning about a GPU in service in words, and "" for none.
func (g *GPU) WarningText() string {
	if g.Warning == nil || g.State != InService {
		return ""
	}
	return describe(*g.Warning) + "; run a program on it with a result that you know"
}

// chance applies Fisher's exact test. It returns the probability that at least bad of the
// bad+otherBad bad ends in all+others runs are in one GPU's all runs, if the GPU is like
// the others.
func chance(bad, all, otherBad, others int) float64 {
	total, allBad := all+others, bad+otherBad
	sum := 0.0
	for k := bad; k <= min(all, allBad); k++ {
		if allBad-k > others {
			continue
		}
		sum += math.Exp(logBinomial(all, k) + logBinomial(others, allBad-k) - logBinomial(total, allBad))
	}
	return min(1, sum)
}

// logBinomial returns the logarithm of n over k.
func logBinomial(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}
