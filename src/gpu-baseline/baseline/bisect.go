package baseline

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Commit is one of the history, or a version of a pipeline.
type Commit struct {
	ID      string `json:"commit"`
	Subject string `json:"subject"`
	merge   bool
}

// digits is how much of an id is shown, and names files.
const digits = 12

func (c Commit) short() string { return c.ID[:min(digits, len(c.ID))] }

// bisection is all that the next step is decided from: what was measured, and what may
// be. It has no memory of its own, so that an interrupted one goes on where it was.
type bisection struct {
	commits []Commit    // the first is good, the last is bad; one at least after the first
	runs    [][]Profile // by commit
	broken  []string    // by commit: why it can't be measured; empty where nobody knows
	limits  Limits
	only    []string // examples; empty: all of the first commit
	noise   float64  // of durations, as part of them, at least
	minRuns int      // of the commit that is found, and of the last good one
	maxRuns int      // of each commit
	canRun  bool
}

// step is what to measure next.
type step struct {
	commit int // -1: nothing
	why    string
	left   int // runs that may follow for the same example, where nothing is repeated
}

var done = step{commit: -1}

// surprised is how often what contradicts another measurement is measured before it is
// believed.
const surprised = 3

// next decides. An error says that there is nothing to search for.
func (b *bisection) next() (step, []Found, error) {
	last := len(b.commits) - 1
	for _, end := range []struct {
		commit int
		name   string
	}{{0, "good"}, {last, "bad"}} {
		i := end.commit
		switch {
		case len(b.runs[i]) > 0:
		case b.broken[i] != "":
			return done, nil, fmt.Errorf("cannot bisect: the %s end %s can't be measured: %s; take another commit", end.name, b.commits[i].short(), b.broken[i])
		case !b.canRun:
			return done, nil, fmt.Errorf("cannot bisect: the %s end %s has no profile; give the command that measures one after --", end.name, b.commits[i].short())
		default:
			left := bits.Len(uint(last - 1))
			if i == 0 && len(b.runs[last]) == 0 {
				left++
			}
			return step{i, "the " + end.name + " end has no profile", left}, nil, nil
		}
	}
	all := []Found{}
	for _, name := range b.names() {
		f, s := b.example(name)
		if s != done {
			return s, nil, nil
		}
		all = append(all, f)
	}
	if !slices.ContainsFunc(all, func(f Found) bool { return len(f.Culprits) > 0 }) {
		return done, all, b.nothing(all)
	}
	return done, all, nil
}

// nothing says what was measured where nothing is worse at the end.
func (b *bisection) nothing(all []Found) error {
	lines := []string{fmt.Sprintf("cannot bisect: in %s no example is worse than in %s; %s", b.commits[len(b.commits)-1].short(), b.commits[0].short(), b.limits)}
	for _, f := range all {
		line := "  " + quoted(f.Name) + ": " + string(f.Result)
		if n := len(f.Points); f.Result == NotWorse {
			cells := f.Points[n-1].cells("->")
			line += fmt.Sprintf(", confidence %s %%: duration (s) %s, %s; peak memory (MB) %s, %s", f.Confidence, cells[0], cells[1], cells[2], cells[3])
		}
		lines = append(lines, strings.Join(append([]string{line}, f.Notes...), "; "))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// names are the examples to look for, those of the good end.
func (b *bisection) names() (names []string) {
	if len(b.only) > 0 {
		return b.only
	}
	for _, p := range b.runs[0] {
		for _, e := range p.Examples {
			if !slices.Contains(names, e.Name) {
				names = append(names, e.Name)
			}
		}
	}
	return names
}

// scatter is the noise of an example, by all repeated runs; of durations the one that is
// assumed, too, while there are few.
func (b *bisection) scatter(name string) noise {
	var durations, memories [][]float64
	repeated := 0
	for _, runs := range b.runs {
		s, _ := gather(name, runs)
		durations, memories = append(durations, relative(s.durations)), append(memories, relative(s.memories))
		repeated += max(0, len(s.durations)-1)
	}
	n := noise{deviation(durations...), deviation(memories...)}
	if repeated < few {
		n.duration = max(n.duration, b.noise)
	}
	return n
}

// look is what is thought of an example in each commit; nil where it was not measured,
// with the reason where it can't be.
func (b *bisection) look(name string, n noise) (verdicts []*verdict, why []string) {
	verdicts, why = make([]*verdict, len(b.commits)), slices.Clone(b.broken)
	limits := b.limits
	limits.AllowMissing = true // what is missing is not measured, and no growth
	base, _ := gather(name, b.runs[0])
	for i, runs := range b.runs {
		if len(runs) == 0 {
			continue
		}
		s, not := gather(name, runs)
		switch {
		case not != "":
			why[i] = "the example " + not
		case (limits.DurationPct != nil || limits.Duration != nil) && len(s.durations) == 0 && len(base.durations) > 0:
			why[i] = "duration_s is missing"
		case (limits.MemoryPct != nil || limits.Memory != nil) && len(s.memories) == 0 && len(base.memories) > 0:
			why[i] = "peak_memory_mb is missing"
		default:
			v := n.judge(limits, name, base, s)
			if i == 0 {
				v.sure = 1 // by definition
			}
			verdicts[i], why[i] = &v, ""
		}
	}
	return verdicts, why
}

// example searches for the commit that made one example worse: between the last that is
// good and the first bad after it, as what was made good again before is no cause of what
// is bad now.
func (b *bisection) example(name string) (Found, step) {
	last := len(b.commits) - 1
	n := b.scatter(name)
	verdicts, why := b.look(name, n)
	f := Found{Name: name, Result: NotMeasured, NoisePct: partPct(n.duration), Culprits: []Commit{}, Points: b.points(verdicts), Notes: []string{}}
	for _, end := range []int{0, last} {
		if verdicts[end] == nil {
			f.Notes = append(f.Notes, fmt.Sprintf("in %s %s", b.commits[end].short(), why[end]))
			return f, done
		}
	}
	if s := b.repeat(last, verdicts[last]); s != done {
		return f, s
	}
	if v := verdicts[last]; !v.Gates {
		sure := partPct(v.sure)
		f.Result, f.Confidence = NotWorse, &sure
		return f, done
	}
	good, before, bad := b.bracket(verdicts)
	if before > 0 {
		for _, i := range []int{before, good} {
			if b.may(i, surprised) {
				return f, step{i, "it contradicts another commit's measurement", bits.Len(uint(bad - good - 1))}
			}
		}
		f.Notes = append(f.Notes, fmt.Sprintf("%s was worse before, and %s was not: there is more than one change, and this is the last of them", b.commits[before].short(), b.commits[good].short()))
	}
	middle := -1
	for i := good + 1; i < bad; i++ {
		can := verdicts[i] == nil && why[i] == "" && b.canRun || verdicts[i] != nil
		if can && (middle < 0 || abs(2*i-good-bad) < abs(2*middle-good-bad)) {
			middle = i
		}
	}
	if middle >= 0 {
		if v := verdicts[middle]; v != nil {
			return f, b.repeat(middle, v)
		}
		return f, step{middle, fmt.Sprintf("it is between %s, which is good, and %s, which is bad", b.commits[good].short(), b.commits[bad].short()), bits.Len(uint(bad-good-1)) - 1}
	}
	// Whichever commit was judged wrongly is one of these two.
	for _, i := range []int{bad, good} {
		if b.may(i, b.minRuns) {
			return f, step{i, "it is one of the two that decide", 0}
		}
	}
	f.end(b, good, bad, verdicts, why)
	return f, done
}

// may tells whether a commit can be run again, until it has so many runs.
func (b *bisection) may(i, most int) bool {
	return b.canRun && b.broken[i] == "" && len(b.runs[i]) < min(most, b.maxRuns)
}

// bracket are the last good commit, the last bad one before it or 0, and the first bad
// one after it, of what is not to be repeated.
func (b *bisection) bracket(verdicts []*verdict) (good, before, bad int) {
	settled := func(i int) bool { return i > 0 && verdicts[i] != nil && b.repeat(i, verdicts[i]) == done }
	bad = len(verdicts) - 1
	for i := bad - 1; i > good; i-- {
		if settled(i) && !verdicts[i].Gates {
			good = i
		} else if settled(i) {
			bad = i
		}
	}
	for i := range good {
		if settled(i) && verdicts[i].Gates {
			before = i
		}
	}
	return good, before, bad
}

// repeat is the step that makes a verdict clearer: another run of the commit or of the
// good end, whichever has fewer.
func (b *bisection) repeat(i int, v *verdict) step {
	if v.sure >= clearAt {
		return done
	}
	order := []int{i, 0}
	if len(b.runs[0]) < len(b.runs[i]) {
		order = []int{0, i}
	}
	for _, c := range order {
		if b.may(c, b.maxRuns) {
			return step{c, fmt.Sprintf("the growth of %s in %s is near the limit for its noise", quoted(v.Name), b.commits[i].short()), bits.Len(uint(len(b.commits) - 2))}
		}
	}
	return done
}

func abs(n int) int { return max(n, -n) }
