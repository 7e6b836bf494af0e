package baseline

import (
	"math"
	"slices"
)

// pairs holds the profiles of A and B, with those of one round under one number. Drift
// between rounds, such as of a clock, then affects both.
type pairs struct{ a, b []Profile }

// firstRounds is the minimum number of rounds: two of A B and two of B A.
const firstRounds = 4

// duel holds the input for deciding about the next round of a comparison.
type duel struct {
	pairs
	limits    Limits
	only      []string
	noise     float64 // assumed for durations, relative, while there are few rounds
	maxRounds int
}

// more reports whether another round is needed, and returns the current result of each
// example.
func (d *duel) more() (more bool, all []Compared) {
	if len(d.b) < firstRounds {
		return true, nil
	}
	for _, name := range d.names() {
		all = append(all, d.example(name))
	}
	more = len(d.b) < d.maxRounds && slices.ContainsFunc(all, func(c Compared) bool { return c.Result == Unclear })
	return more, all
}

func (d *duel) names() (names []string) {
	if len(d.only) > 0 {
		return d.only
	}
	for _, p := range slices.Concat(d.a, d.b) {
		for _, e := range p.Examples {
			if !slices.Contains(names, e.Name) {
				names = append(names, e.Name)
			}
		}
	}
	return names
}

// Side has the means of A or B.
type Side struct {
	*Measured
	Spread Percent `json:"spread_pct"` // standard deviation of its durations
}

// Answer names the answer to whether B is worse than A.
type Answer string

const (
	Worse    Answer = "worse"
	NoWorse  Answer = "not worse"
	Unclear  Answer = "not clear"    // because of the noise
	NotInAll Answer = "not measured" // in a round of A, or new in B
)

// Compared holds the answer for one example. It compares A's mean with A's mean plus the
// mean growth of a round.
type Compared struct {
	Name       string  `json:"name"`
	Result     Answer  `json:"result"`
	Confidence Percent `json:"confidence_pct"`
	A          Side    `json:"a"`
	B          Side    `json:"b"`
	Row        `json:"compared"`
}

// example compares one example.
func (d *duel) example(name string) Compared {
	a, b := side(name, d.a), side(name, d.b)
	c := Compared{Name: name, A: a, B: b, Confidence: partPct(surest), Result: NotInAll}
	switch {
	case a.Measured == nil && b.Measured == nil:
		c.Row = Row{Name: name, Result: Missing, Reasons: []string{}, Notes: []string{"no round has it"}}
		return c
	case a.Measured == nil || b.Measured == nil || a.Status != StatusOK || b.Status != StatusOK:
		c.Row = d.limits.row(a.example(name), b.example(name))
		if c.Gates {
			c.Result = Worse
		}
		return c
	}
	durations := d.growth(name, func(m Measured) *Amount { return m.Duration })
	memories := d.growth(name, func(m Measured) *Amount { return m.Memory })
	assumed := 0.0
	if a.Duration != nil && len(durations) <= few {
		assumed = math.Sqrt2 * d.noise * float64(*a.Duration)
	}
	worse := Measured{Status: StatusOK, Duration: grown(a.Duration, durations), Memory: grown(a.Memory, memories)}
	v := d.limits.judge(name, *a.Measured, worse,
		max(assumed, deviation(numbers(durations)))/root(len(durations)),
		deviation(numbers(memories))/root(len(memories)))
	c.Row, c.Confidence = v.Row, partPct(v.sure)
	switch {
	case v.sure < clearAt:
		c.Result = Unclear
	case v.Gates:
		c.Result = Worse
	default:
		c.Result = NoWorse
	}
	return c
}

// side returns the mean of one side if the example is ok in each round, otherwise its worst
// status. It is empty if a round lacks the example.
func side(name string, runs []Profile) Side {
	worst := StatusOK
	for _, p := range runs {
		e, ok := p.find(name)
		switch {
		case !ok:
			return Side{}
		case e.Status == StatusFailed || worst == StatusOK:
			worst = e.Status
		}
	}
	if worst != StatusOK {
		return Side{Measured: &Measured{Status: worst}}
	}
	s, _ := gather(name, runs)
	m := s.measured()
	return Side{&m, partPct(deviation(relative(s.durations)))}
}

func (s Side) example(name string) *Example {
	if s.Measured == nil {
		return nil
	}
	return &Example{name, *s.Measured}
}

// growth returns the growth from A to B in each round.
func (d *duel) growth(name string, field func(Measured) *Amount) (all []Amount) {
	for i := range d.b {
		a, _ := d.a[i].find(name)
		b, _ := d.b[i].find(name)
		if was, is := field(a.Measured), field(b.Measured); was != nil && is != nil {
			all = append(all, *is-*was)
		}
	}
	return all
}

// grown adds the mean growth to A's mean. It returns nil without any growth.
func grown(was *Amount, growth []Amount) *Amount {
	if was == nil || len(growth) == 0 {
		return nil
	}
	sum := max(0, *was+*mean(growth))
	return &sum
}

func numbers(all []Amount) (numbers []float64) {
	for _, a := range all {
		numbers = append(numbers, float64(a))
	}
	return numbers
}
