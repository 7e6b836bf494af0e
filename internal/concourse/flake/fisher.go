package flake

import (
	"cmp"
	"math"
	"slices"
)

// table counts runs of one task or test: those on a place, and all others.
type table struct{ hereFailed, herePassed, elseFailed, elsePassed int }

func (t table) here() int   { return t.hereFailed + t.herePassed }
func (t table) failed() int { return t.hereFailed + t.elseFailed }
func (t table) all() int    { return t.here() + t.elseFailed + t.elsePassed }
func (t table) rest() int   { return t.elseFailed + t.elsePassed }
func (t table) informs() bool {
	return t.here() > 0 && t.rest() > 0 && t.failed() > 0 && t.failed() < t.all()
}

// hypergeometric returns the probability of each possible number of failures on the place,
// from 0, if the place does not matter. The sums of the table are given.
func (t table) hypergeometric() []float64 {
	out := make([]float64, min(t.here(), t.failed())+1)
	whole := choose(t.all(), t.failed())
	for k := range out {
		if t.failed()-k <= t.rest() {
			out[k] = math.Exp(choose(t.here(), k) + choose(t.rest(), t.failed()-k) - whole)
		}
	}
	return out
}

// choose returns the logarithm of the binomial coefficient.
func choose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// exact returns the one-sided probability of at least this many failures on the place, if
// the place does not matter. For one table this is Fisher's exact test. For several tables,
// each of another task or test, the failures are added and each table keeps its own sums.
// So a task that fails everywhere, and runs mostly on one place, does not blame the place.
func exact(tables ...table) float64 {
	sum, seen := []float64{1}, 0
	for _, t := range tables {
		if !t.informs() {
			continue
		}
		seen += t.hereFailed
		one := t.hypergeometric()
		next := make([]float64, len(sum)+len(one)-1)
		for i, a := range sum {
			for j, b := range one {
				next[i+j] += a * b
			}
		}
		sum = next
	}
	p := 0.0
	for i := len(sum) - 1; i >= seen; i-- {
		p += sum[i]
	}
	return min(p, 1)
}

// holm corrects probabilities for their number, by Holm's method: the chance that any place
// is blamed by accident is at most the level.
func holm(ps []float64) []float64 {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ps[a], ps[b]) })
	out, last := make([]float64, len(ps)), 0.0
	for rank, i := range order {
		last = max(last, min(1, ps[i]*float64(len(ps)-rank)))
		out[i] = last
	}
	return out
}
