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
	// levelWithin is the level at which a GPU differs from the other GPUs of its worker. It
	// only decides between the GPU and the worker.
	levelWithin = 0.01
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

// tables counts the runs of each place and of all others in one pass, because a worker
// chooses the names of its GPUs. With inside, only runs of that worker count. Runs on unknown
// places count for none.
func (s *series) tables(inside string) map[spot]table {
	here := map[spot]table{}
	var ofWorkers, ofGPUs table // all runs, and those with known GPUs
	for i, r := range s.runs {
		m := s.marks[i]
		if r.Worker == "" || inside != "" && r.Worker != inside || m != pass && !m.failing() {
			continue
		}
		places := []spot{{worker: r.Worker}}
		for _, g := range slices.Compact(slices.Sorted(slices.Values(r.GPUs))) {
			places = append(places, spot{r.Worker, g})
		}
		for _, p := range places {
			here[p] = here[p].with(m)
		}
		if ofWorkers = ofWorkers.with(m); len(r.GPUs) > 0 {
			ofGPUs = ofGPUs.with(m)
		}
	}
	for p, t := range here {
		all := ofWorkers
		if p.gpu != "" {
			all = ofGPUs
		}
		t.elseFailed, t.elsePassed = all.hereFailed-t.hereFailed, all.herePassed-t.herePassed
		here[p] = t
	}
	return here
}

// with returns the table with one more run on the place.
func (t table) with(m mark) table {
	if m == pass {
		t.herePassed++
	} else {
		t.hereFailed++
	}
	return t
}

// sorted returns the places in a fixed order.
func sorted[T any](at map[spot]T) []spot {
	return slices.SortedFunc(maps.Keys(at), func(a, b spot) int {
		return cmp.Or(cmp.Compare(a.worker, b.worker), cmp.Compare(a.gpu, b.gpu))
	})
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
		tables := all[i].tables("")
		for _, p := range sorted(tables) {
			t := tables[p]
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
		g := decide(found, within(all, []int{i}))
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
		if g.spot.gpu != "" && inside(g.spot) < levelWithin {
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

// within returns a function that compares a GPU with the others of its worker.
func within(all []*series, of []int) func(spot) float64 {
	known := map[string][]map[spot]table{} // by worker
	return func(p spot) float64 {
		if known[p.worker] == nil {
			for _, i := range of {
				known[p.worker] = append(known[p.worker], all[i].tables(p.worker))
			}
		}
		var inside []table
		for _, at := range known[p.worker] {
			inside = append(inside, at[p])
		}
		return exact(inside...)
	}
}

// together compares the places for the failures of all tasks. Each task is compared only
// with itself.
func together(all []*series, tasks []int) []Place {
	at := map[spot][]table{}
	for _, i := range tasks {
		for p, t := range all[i].tables("") {
			if t.informs() {
				at[p] = append(at[p], t)
			}
		}
	}
	spots := sorted(at)
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
		g := decide(found, within(all, tasks))
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
	if len(places) == 0 {
		return nil
	}
	tables := s.tables("")
	for _, p := range places {
		here := spot{p.Worker, p.GPU}
		t := tables[here]
		if t.hereFailed > 0 && s.episodes(&here) < minEpisodes {
			return &Place{p.Worker, p.GPU, t.hereFailed, t.here(), t.elseFailed, t.rest(), 1, p.Probability}
		}
	}
	return nil
}
