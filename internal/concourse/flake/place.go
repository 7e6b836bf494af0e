package flake

import (
	"cmp"
	"maps"
	"slices"
)

const (
	// level is the chance of blaming any place by accident, over all comparisons.
	level = 0.01
	// minFailures is the number of failures on a place from which it can be blamed.
	minFailures = 3
	// within is the level at which a GPU differs from the other GPUs of its worker. It only
	// decides between the GPU and the worker.
	within = 0.01
)

// spot identifies a GPU, or a worker if GPU is "".
type spot struct{ worker, gpu string }

// on reports whether a run was on the spot.
func (p spot) on(r Run) bool {
	return r.Worker == p.worker && (p.gpu == "" || slices.Contains(r.GPUs, p.gpu))
}

// blamed holds the places on which series fail.
type blamed struct {
	each   []*Place // of each series, nil: none
	places []Place
}

// blame compares each place with all others: for each series, and for all tasks together.
func blame(all []*series) blamed {
	out := blamed{each: make([]*Place, len(all))}
	tested := testedSeries(all)
	for i, p := range worst(all, tested) {
		out.each[i] = p
	}
	var tasks []int
	for _, i := range tested {
		if all[i].key.Test == "" || !hasTask(all, tested, all[i].key) {
			tasks = append(tasks, i)
		}
	}
	out.places = together(all, tasks)
	for i, s := range all {
		if out.each[i] == nil && s.episodes(nil) >= minEpisodes {
			out.each[i] = s.explained(out.places)
		}
	}
	return out
}

// testedSeries returns the series with enough failures on known places. The number does not
// depend on the places, so it does not bias the comparison.
func testedSeries(all []*series) (out []int) {
	for i, s := range all {
		n := 0
		for j, m := range s.marks {
			if m.failing() && s.runs[j].Worker != "" {
				n++
			}
		}
		if n >= minFailures {
			out = append(out, i)
		}
	}
	return out
}

// hasTask reports whether the task of a test is in the list.
func hasTask(all []*series, list []int, k Key) bool {
	k.Test = ""
	return slices.ContainsFunc(list, func(i int) bool { return all[i].key == k })
}

// spots returns the places of a series' runs in a fixed order.
func (s *series) spots() []spot {
	set := map[spot]bool{}
	for i, r := range s.runs {
		if r.Worker == "" || s.marks[i] != pass && !s.marks[i].failing() {
			continue
		}
		set[spot{worker: r.Worker}] = true
		for _, g := range r.GPUs {
			set[spot{r.Worker, g}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(set), func(a, b spot) int {
		return cmp.Or(cmp.Compare(a.worker, b.worker), cmp.Compare(a.gpu, b.gpu))
	})
}

// table counts the runs on a spot and on other places. With inside only runs of that worker
// count. Runs on unknown places count for none.
func (s *series) table(p spot, inside *string) (t table) {
	for i, r := range s.runs {
		m := s.marks[i]
		if r.Worker == "" || p.gpu != "" && len(r.GPUs) == 0 || inside != nil && r.Worker != *inside {
			continue
		}
		switch here := p.on(r); {
		case m.failing() && here:
			t.hereFailed++
		case m.failing():
			t.elseFailed++
		case m == pass && here:
			t.herePassed++
		case m == pass:
			t.elsePassed++
		}
	}
	return t
}

// guess is a place of a series with its probability.
type guess struct {
	series int
	spot   spot
	table  table
	p      float64
}

// worst returns the place of each series that fails there more than elsewhere.
func worst(all []*series, tested []int) map[int]*Place {
	var guesses []guess
	var ps []float64
	for _, i := range tested {
		for _, p := range all[i].spots() {
			t := all[i].table(p, nil)
			if !t.informs() {
				continue
			}
			guesses = append(guesses, guess{i, p, t, 0})
			ps = append(ps, exact(t))
		}
	}
	by := map[int][]guess{}
	for n, p := range holm(ps) {
		g := guesses[n]
		if g.p = p; p < level && g.table.hereFailed >= minFailures {
			by[g.series] = append(by[g.series], g)
		}
	}
	out := map[int]*Place{}
	for i, found := range by {
		g := decide(found, func(p spot) float64 { return exact(all[i].table(p, &p.worker)) })
		out[i] = &Place{g.spot.worker, g.spot.gpu, g.table.hereFailed, g.table.here(), g.table.elseFailed,
			g.table.rest(), 1, g.p}
	}
	return out
}

// decide chooses between places that all differ from the others: the GPU if it differs from
// the other GPUs of its worker too, and otherwise the worker. inside compares a GPU with
// them.
func decide(found []guess, inside func(spot) float64) guess {
	slices.SortStableFunc(found, func(a, b guess) int { return cmp.Compare(a.p, b.p) })
	for _, g := range found {
		if g.spot.gpu != "" && inside(g.spot) < within {
			return g
		}
	}
	for _, g := range found {
		if g.spot.gpu == "" {
			return g
		}
	}
	return found[0]
}

// together compares the places for the failures of all tasks. Each task is compared only
// with itself.
func together(all []*series, tasks []int) []Place {
	at := map[spot][]table{}
	for _, i := range tasks {
		for _, p := range all[i].spots() {
			if t := all[i].table(p, nil); t.informs() {
				at[p] = append(at[p], t)
			}
		}
	}
	spots := slices.SortedFunc(maps.Keys(at), func(a, b spot) int {
		return cmp.Or(cmp.Compare(a.worker, b.worker), cmp.Compare(a.gpu, b.gpu))
	})
	ps := make([]float64, len(spots))
	for n, p := range spots {
		ps[n] = exact(at[p]...)
	}
	by := map[string][]guess{} // by worker
	for n, p := range holm(ps) {
		sum, failing := added(at[spots[n]])
		if p < level && sum.hereFailed >= minFailures && failing > 1 {
			by[spots[n].worker] = append(by[spots[n].worker], guess{failing, spots[n], sum, p})
		}
	}
	out := []Place{}
	for _, found := range by {
		g := decide(found, func(p spot) float64 {
			var inside []table
			for _, i := range tasks {
				inside = append(inside, all[i].table(p, &p.worker))
			}
			return exact(inside...)
		})
		out = append(out, Place{g.spot.worker, g.spot.gpu, g.table.hereFailed, g.table.here(), g.table.elseFailed,
			g.table.rest(), g.series, g.p})
	}
	slices.SortFunc(out, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Probability, b.Probability), cmp.Compare(a.Worker, b.Worker))
	})
	return out
}

// added returns the sum of tables, and the number of tables with a failure on the place.
func added(tables []table) (sum table, failing int) {
	for _, t := range tables {
		sum.hereFailed, sum.herePassed = sum.hereFailed+t.hereFailed, sum.herePassed+t.herePassed
		sum.elseFailed, sum.elsePassed = sum.elseFailed+t.elseFailed, sum.elsePassed+t.elsePassed
		if t.hereFailed > 0 {
			failing++
		}
	}
	return sum, failing
}

// explained returns the place of several tasks' failures that explains the flake, or nil: the
// failures on other places would not make the series flaky.
func (s *series) explained(places []Place) *Place {
	for _, p := range places {
		here := spot{p.Worker, p.GPU}
		t := s.table(here, nil)
		if t.hereFailed > 0 && s.episodes(&here) < minEpisodes {
			return &Place{p.Worker, p.GPU, t.hereFailed, t.here(), t.elseFailed, t.rest(), 1, p.Probability}
		}
	}
	return nil
}
