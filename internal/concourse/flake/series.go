package flake

import (
	"cmp"
	"slices"
)

// mark classifies a run.
type mark int

const (
	ignored mark = iota // aborted, or without a known result
	pass
	mixed   // failed, and passed with the same inputs
	alone   // failed once, between passed runs with other inputs
	changed // failed, and a change may explain it
	broken  // failed with all other runs of its time, as with a mirror that is away
	outage  // failed at the same time as runs of other jobs
	infra   // ended by infrastructure, as the verdict shows
)

// failing reports whether the mark is a failure that no change explains.
func (m mark) failing() bool { return m == mixed || m == alone }

// series holds the runs of a task or a test, oldest first.
type series struct {
	key   Key
	runs  []Run
	marks []mark
}

// Bounds on the tests that are looked at. Tests with most failures come first.
const (
	maxTestsOfTask = 200
	maxTestRuns    = 200_000 // of all tests
)

// testsOf returns the tests that failed at least twice, up to the bounds: tasks choose the
// names of their tests.
func testsOf(failed map[Key][]string, by map[Key]*series) (out []Key) {
	type test struct {
		key      Key
		failures int
	}
	var all []test
	for k, names := range failed {
		times := map[string]int{}
		for _, name := range names {
			times[name]++
		}
		first := len(all)
		for name, n := range times {
			if k.Test = name; n >= minEpisodes {
				all = append(all, test{k, n})
			}
		}
		some := all[first:]
		slices.SortFunc(some, func(a, b test) int {
			return cmp.Or(cmp.Compare(b.failures, a.failures), a.key.compare(b.key))
		})
		all = all[:first+min(len(some), maxTestsOfTask)]
	}
	slices.SortFunc(all, func(a, b test) int {
		return cmp.Or(cmp.Compare(b.failures, a.failures), a.key.compare(b.key))
	})
	runs := 0
	for _, one := range all {
		task := one.key
		task.Test = ""
		if runs += len(by[task].runs); runs > maxTestRuns {
			break
		}
		out = append(out, one.key)
	}
	return out
}

// seriesOf splits runs by task, and by test.
func seriesOf(runs []Run) (all []*series) {
	by := map[Key]*series{}
	failed := map[Key][]string{} // names of tests by task
	for _, r := range runs {
		if by[r.Key] == nil {
			by[r.Key] = &series{key: r.Key}
		}
		by[r.Key].runs = append(by[r.Key].runs, r)
		if r.Tests != nil {
			failed[r.Key] = append(failed[r.Key], r.Tests.Failed...)
		}
	}
	for _, k := range testsOf(failed, by) {
		one := &series{key: k}
		task := k
		task.Test = ""
		for _, r := range by[task].runs {
			if r.Test = k.Test; r.narrow(k.Test) {
				one.runs = append(one.runs, r)
			}
		}
		all = append(all, one)
	}
	for _, s := range by {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *series) int { return a.key.compare(b.key) })
	for _, s := range all {
		slices.SortStableFunc(s.runs, func(a, b Run) int { return a.Time.Compare(b.Time) })
		s.classify()
	}
	return all
}

// narrow changes a run of a task to the run of one of its tests. It returns false if the test
// has no result.
func (r *Run) narrow(test string) bool {
	known, passed := r.Tests.Has(test)
	if !known || r.Result == Errored || r.Result == Aborted {
		return false
	}
	if r.Result = Failed; passed {
		r.Result = Passed
	}
	return true
}

// classify marks the runs. A failure is mixed only because of runs with equal inputs.
func (s *series) classify() {
	s.marks = make([]mark, len(s.runs))
	passedWith, failedOther := map[string]bool{}, map[string]int{}
	for _, r := range s.runs {
		if s.passed(r) && r.Inputs != "" {
			passedWith[r.Inputs] = true
		}
	}
	for i, r := range s.runs {
		switch {
		case s.passed(r):
			s.marks[i] = pass
		case r.Result == Errored:
			s.marks[i] = infra
		case r.Result != Failed:
			s.marks[i] = ignored
		case r.Cause.Infrastructure() && r.Cause != ByGPU:
			s.marks[i] = infra
		case passedWith[r.Inputs]:
			s.marks[i] = mixed
		default:
			s.marks[i] = changed
			failedOther[r.Inputs]++
		}
	}
	s.markAlone(failedOther)
}

// passed reports whether the run passed. A task with failed tests did its work: only these
// tests failed, and each has a series.
func (s *series) passed(r Run) bool {
	tested := s.key.Test == "" && r.Tests != nil && len(r.Tests.Failed) > 0
	return r.Result == Passed || r.Result == Failed && tested && !r.Cause.Infrastructure()
}

// markAlone marks failures that are the only run of their inputs, directly between passed
// runs. Such a failure does not make a task flaky, but it counts for a place.
func (s *series) markAlone(failures map[string]int) {
	counted := s.counted()
	for n, i := range counted {
		if s.marks[i] != changed || n == 0 || n == len(counted)-1 || failures[s.runs[i].Inputs] != 1 {
			continue
		}
		before, after := s.marks[counted[n-1]], s.marks[counted[n+1]]
		if before == pass && after == pass {
			s.marks[i] = alone
		}
	}
}

// counted returns the indices of runs that passed or failed by themselves.
func (s *series) counted() (out []int) {
	for i, m := range s.marks {
		if m != ignored && m != infra && m != outage {
			out = append(out, i)
		}
	}
	return out
}

// minBreak is the number of failures in a row, with several inputs, that look like a break
// outside of the inputs.
const minBreak = 3

// markBreaks marks failures in a row with several inputs. Something that the inputs do not
// have changed at that time, and changed back.
func (s *series) markBreaks() {
	counted := s.counted()
	for from := 0; from < len(counted); {
		to, inputs := from, map[string]bool{}
		for ; to < len(counted) && s.marks[counted[to]] != pass; to++ {
			inputs[s.runs[counted[to]].Inputs] = true
		}
		if to-from >= minBreak && len(inputs) > 1 {
			for _, i := range counted[from:to] {
				s.marks[i] = broken
			}
		}
		from = max(to, from+1)
	}
}

// episodes counts failures with the same inputs as a passed run. Failures without a passed
// run between them are one. Failures on the spot without are left out.
func (s *series) episodes(without *spot) (n int) {
	within := false
	for _, i := range s.counted() {
		switch m := s.marks[i]; {
		case m == pass:
			within = false
		case m == mixed && (without == nil || !without.on(s.runs[i])):
			if !within {
				n++
			}
			within = true
		}
	}
	return n
}
