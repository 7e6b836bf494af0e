package baseline

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Commit describes a commit of the history, or a version of a pipeline.
type Commit struct {
	ID      string `json:"commit"`
	Subject string `json:"subject"`
	merge   bool
}

// digits is the length of displayed ids and of ids in file names.
const digits = 12

func (c Commit) short() string { return c.ID[:min(digits, len(c.ID))] }

// bisection holds the input for deciding about the next step: the measurements so far and
// the limits of the search. It stores no other state, so that an interrupted search can
// continue.
type bisection struct {
	commits []Commit    // the first is good, the last is bad; at least two
	runs    [][]Profile // by commit
	broken  []string    // by commit: why it can't be measured; empty if unknown
	limits  Limits
	only    []string // examples; empty: all of the first commit
	noise   float64  // minimum for durations, relative
	minRuns int      // of the found commit and of the last good one
	maxRuns int      // of each commit
	canRun  bool
}

// step describes the next measurement.
type step struct {
	commit    int // -1: none
	why       string
	remaining int // further runs for the same example, if no run is repeated
}

var noStep = step{commit: -1}

// surprised is the number of runs before a measurement that contradicts another one is
// accepted.
const surprised = 3

// next decides about the next step. An error reports that there is nothing to search for.
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
			return noStep, nil, fmt.Errorf("cannot bisect: the %s end %s can't be measured: %s; take another commit",
				end.name, b.commits[i].short(), b.broken[i])
		case !b.canRun:
			return noStep, nil, fmt.Errorf("cannot bisect: the %s end %s has no profile; give the command that "+
				"measures one after --", end.name, b.commits[i].short())
		default:
			remaining := bits.Len(uint(last - 1))
			if i == 0 && len(b.runs[last]) == 0 {
				remaining++
			}
			return step{i, "the " + end.name + " end has no profile", remaining}, nil, nil
		}
	}
	all := []Found{}
	for _, name := range b.names() {
		f, s := b.example(name)
		if s != noStep {
			return s, nil, nil
		}
		all = append(all, f)
	}
	if !slices.ContainsFunc(all, func(f Found) bool { return len(f.Culprits) > 0 }) {
		return noStep, all, b.nothing(all)
	}
	return noStep, all, nil
}

// nothing returns an error with the measurements if no example is worse at the end.
func (b *bisection) nothing(all []Found) error {
	lines := []string{fmt.Sprintf("cannot bisect: in %s no example is worse than in %s; %s",
		b.commits[len(b.commits)-1].short(), b.commits[0].short(), b.limits)}
	for _, f := range all {
		line := "  " + quoted(f.Name) + ": " + string(f.Result)
		if n := len(f.Points); f.Result == NotWorse {
			cells := f.Points[n-1].cells("->")
			line += fmt.Sprintf(", confidence %s %%: duration (s) %s, %s; peak memory (MB) %s, %s", f.Confidence,
				cells[0], cells[1], cells[2], cells[3])
		}
		lines = append(lines, strings.Join(append([]string{line}, f.Notes...), "; "))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// names returns the examples to search for, which are those of the good end.
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

// scatter returns the noise of an example from all repeated runs. With few repeated runs,
// the noise of durations is at least the assumed one.
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

// look judges an example in each commit. A verdict is nil if the example was not measured,
// with the reason if it can't be.
func (b *bisection) look(name string, n noise) (verdicts []*verdict, why []string) {
	verdicts, why = make([]*verdict, len(b.commits)), slices.Clone(b.broken)
	limits := b.limits
	limits.AllowMissing = true // a missing example is unmeasured, and not a growth
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

// example searches for the commit that made one example worse, between the last good commit
// and the first bad one after it. An earlier bad commit that was fixed again is not the
// cause of the current state.
func (b *bisection) example(name string) (Found, step) {
	last := len(b.commits) - 1
	n := b.scatter(name)
	verdicts, why := b.look(name, n)
	f := Found{Name: name, Result: NotMeasured, NoisePct: partPct(n.duration), Culprits: []Commit{},
		Points: b.points(verdicts), Notes: []string{}}
	for _, end := range []int{0, last} {
		if verdicts[end] == nil {
			f.Notes = append(f.Notes, fmt.Sprintf("in %s %s", b.commits[end].short(), why[end]))
			return f, noStep
		}
	}
	if s := b.repeat(last, verdicts[last]); s != noStep {
		return f, s
	}
	if v := verdicts[last]; !v.Gates {
		sure := partPct(v.sure)
		f.Result, f.Confidence = NotWorse, &sure
		return f, noStep
	}
	good, before, bad := b.bracket(verdicts)
	if before > 0 {
		for _, i := range []int{before, good} {
			if b.may(i, surprised) {
				return f, step{i, "it contradicts another commit's measurement", bits.Len(uint(bad - good - 1))}
			}
		}
		f.Notes = append(f.Notes, fmt.Sprintf("%s was worse before, and %s was not: there is more than one "+
			"change, and this is the last of them", b.commits[before].short(), b.commits[good].short()))
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
		return f, step{middle, fmt.Sprintf("it is between %s, which is good, and %s, which is bad",
			b.commits[good].short(), b.commits[bad].short()), bits.Len(uint(bad-good-1)) - 1}
	}
	// A wrong verdict would be one of these two.
	for _, i := range []int{bad, good} {
		if b.may(i, b.minRuns) {
			return f, step{i, "it is one of the two that decide", 0}
		}
	}
	f.end(b, good, bad, verdicts, why)
	return f, noStep
}

// may reports whether a commit can run again, up to most runs.
func (b *bisection) may(i, most int) bool {
	return b.canRun && b.broken[i] == "" && len(b.runs[i]) < min(most, b.maxRuns)
}

// bracket returns the last good commit, the last bad one before it or 0, and the first bad
// one after it. It ignores commits that must be repeated.
func (b *bisection) bracket(verdicts []*verdict) (good, before, bad int) {
	settled := func(i int) bool { return i > 0 && verdicts[i] != nil && b.repeat(i, verdicts[i]) == noStep }
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

// repeat returns the step that makes a verdict clearer: another run of the commit or of the
// good end, whichever has fewer runs.
func (b *bisection) repeat(i int, v *verdict) step {
	if v.sure >= clearAt {
		return noStep
	}
	order := []int{i, 0}
	if len(b.runs[0]) < len(b.runs[i]) {
		order = []int{0, i}
	}
	for _, c := range order {
		if b.may(c, b.maxRuns) {
			return step{c, fmt.Sprintf("the growth of %s in %s is near the limit for its noise", quoted(v.Name),
				b.commits[i].short()), bits.Len(uint(len(b.commits) - 2))}
		}
	}
	return noStep
}

func abs(n int) int { return max(n, -n) }

// Outcome names the outcome of the search for one example.
type Outcome string

const (
	FoundOne    Outcome = "found"        // one commit
	FoundRange  Outcome = "range"        // one of several, which can't be distinguished
	NotWorse    Outcome = "not worse"    // within the limits at the end
	NotMeasured Outcome = "not measured" // at one of the ends
)

// Found holds the answer for one example.
type Found struct {
	Name       string   `json:"name"`
	Result     Outcome  `json:"result"`
	Culprits   []Commit `json:"culprits"` // oldest first
	Confidence *Percent `json:"confidence_pct"`
	NoisePct   Percent  `json:"noise_pct"` // of durations
	Points     []Point  `json:"measured"`  // oldest first
	Notes      []string `json:"notes"`
}

// Point has the means of one commit's runs.
type Point struct {
	Commit
	Runs       int     `json:"runs"`
	Worse      bool    `json:"worse"`
	Confidence Percent `json:"confidence_pct"`
	Row        `json:"compared"`
}

// partPct converts a fraction to a percentage, rounded to a hundredth.
func partPct(p float64) Percent { return Percent(math.Round(p*1e4) / 100) }

// points returns the measured commits.
func (b *bisection) points(verdicts []*verdict) []Point {
	all := []Point{}
	for i, v := range verdicts {
		if v != nil {
			all = append(all, Point{b.commits[i], len(b.runs[i]), v.Gates, partPct(v.sure), v.Row})
		}
	}
	return all
}

// end names the commits after good up to bad.
func (f *Found) end(b *bisection, good, bad int, verdicts []*verdict, why []string) {
	f.Culprits = b.commits[good+1 : bad+1]
	f.Result = FoundOne
	if len(f.Culprits) > 1 {
		f.Result = FoundRange
	}
	// Either verdict may be wrong.
	f.Confidence = new(partPct(min(surest, verdicts[bad].sure+verdicts[good].sure-1)))
	unknown := 0
	for i := good + 1; i < bad; i++ {
		if why[i] != "" {
			f.Notes = append(f.Notes, fmt.Sprintf("%s can't be measured: %s", b.commits[i].short(), why[i]))
		} else {
			unknown++
		}
	}
	if unknown > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%d of them have no profile: give the command that measures one "+
			"after --", unknown))
	}
	if c := f.Culprits[0]; len(f.Culprits) == 1 && c.merge {
		f.Notes = append(f.Notes, fmt.Sprintf("%s is a merge: to look inside, bisect what git merge-base %[1]s^1 "+
			"%[1]s^2 prints..%[1]s^2", c.short()))
	}
}

// BisectReport describes the complete search. As JSON it is the output.
type BisectReport struct {
	Version  int      `json:"version"`
	OK       bool     `json:"ok"` // each worse example has one commit, with enough confidence
	Good     Commit   `json:"good"`
	Bad      Commit   `json:"bad"`
	Commits  int      `json:"commits"` // after the good one
	Limits   Limits   `json:"limits"`
	Profiles int      `json:"profiles"` // existing before
	Runs     int      `json:"runs"`     // made by this search
	Examples []Found  `json:"examples"`
	Notes    []string `json:"notes"`
}

// sureEnough is the minimum confidence of a clear answer.
const sureEnough = 95

// finish decides about the complete search.
func (r *BisectReport) finish() {
	r.OK = true
	for _, f := range r.Examples {
		if f.Result == FoundRange || f.Confidence != nil && *f.Confidence < sureEnough {
			r.OK = false
		}
	}
}
