package quarantine

import (
	"math"
	"slices"
	"strings"

	"concourse-ci-machine/internal/gpu/health"
)

// How the tasks of a GPU ended, against those of its siblings.

const (
	// failures is the warning on a GPU whose tasks end badly more often than its siblings'
	// do: Value of the last Limit of them.
	failures health.Kind = "failed_tasks"
	// maxOutcomes is how many of the last runs of a GPU count, and leastBad how many of
	// them have to have ended badly for the numbers to mean something.
	maxOutcomes = 50
	leastBad    = 3
	// significance is the greatest chance, on a GPU that is like its siblings, of numbers
	// that are a warning.
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
		}
	}
}

// compare warns of GPUs whose tasks end badly when those of their siblings do not. It
// withholds none: a program that crashes each time on the GPU that it names looks the same.
func (r *Record) compare() {
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

// Warned returns in words what speaks against a GPU that is in service; "" for nothing.
func (g *GPU) Warned() string {
	if g.Warning == nil || g.State != InService {
		return ""
	}
	return inWords(*g.Warning) + "; run a program on it with a result that you know"
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
