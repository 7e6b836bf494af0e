// Package health judges one GPU by what its driver tells. It is a pure
// function of its inputs: it reads nothing and keeps nothing.
//
// First come the gates, each of which alone makes a GPU critical and holds its
// score at 30 or less, because no average may hide them: the GPU hangs or does
// not answer (score 0), has had an uncorrectable memory error since the driver
// was loaded, or has bad memory pages.
//
// Then the score, 0 to 100, is the weighted mean of the components that there
// are inputs for; the weights of the others are shared out among these:
//
//	errors       .25  deferred: 1 or more 70, 10 or more 40
//	                  correctable: 1 or more 90, 100 or more 70, 1000 or more 40
//	temperature  .20  as a share of the sensor's critical temperature:
//	                  up to .75 100, falling to 70 at .90, to 30 at 1, and 0 from there
//	throttling   .15  share of time under a thermal limit: 0 100, falling to
//	                  70 at .1, to 30 at .5, to 0 at 1
//	events       .15  hangs and resets in a day: 0 100, 1 70, 2 55, 3 40, 4 25, more 0
//	links        .15  XGMI links that are up: all 100, else 70 times their share
//	pcie         .10  100 times width over maximum, and speed over maximum while
//	                  the GPU is busy (an idle link is slow to save power);
//	                  replays: over .1 a second at most 70, over 1 at most 40
//
// The state is the worse of two: that of the score (healthy from 80, warning
// from 50) and that of the worst component (healthy from 80, warning from 30).
// A score that contradicts the state is lowered to 79 or 49. Where neither
// errors nor temperature are known, the state is unknown and there is no score:
// a GPU that tells nothing is not a healthy one.
package health

import (
	"fmt"
	"math"
	"strings"
)

// State is the judgement in a word.
type State string

// The states, best first; Unknown is none of the others.
const (
	Healthy  State = "healthy"
	Warning  State = "warning"
	Critical State = "critical"
	Unknown  State = "unknown"
)

// Inputs is what is known of a GPU. A nil pointer is an input that is missing.
type Inputs struct {
	Suspended  bool   // asleep to save power: most inputs are missing, for a good reason
	Unreadable string // why its files gave nothing; "" when they did
	Hang       string // the signals that say it hangs; "" for none

	Errors       *Errors
	BadPages     *int // memory pages that are retired or should be
	Temperature  *Temperature
	ThermalShare *float64 // of the time, under a thermal limit: 0 to 1
	Events       *int     // hangs and resets in the last 24 h
	Links        *Links
	PCIe         *PCIe
}

// Errors are counts since the driver was loaded, of all blocks together.
type Errors struct{ Uncorrectable, Deferred, Correctable uint64 }

// Temperature is of one sensor, in degrees Celsius.
type Temperature struct {
	Sensor          string
	Value, Critical float64
}

// Links are the XGMI links that the GPU has.
type Links struct{ Up, Total int }

// PCIe is the link to the machine. A maximum of 0 is not known.
type PCIe struct {
	Width, MaxWidth float64 // lanes
	Speed, MaxSpeed float64 // transfers/s
	Busy            bool    // the GPU works, so that the speed should be the maximum
	Replays         float64 // a second
}

// Assess judges a GPU. The score is NaN where the state is Unknown. The reason
// is for people: what is wrong, or what was looked at where nothing is.
func Assess(in Inputs) (score float64, state State, reason string) {
	var room [6]component
	parts := components(&in, &room)
	mean, weights, worst := 0.0, 0.0, 100.0
	for _, p := range parts {
		mean += p.weight * p.score
		weights += p.weight
		worst = math.Min(worst, p.score)
	}
	if weights > 0 {
		mean /= weights
	}
	switch limit, found := gates(&in); {
	case len(found) > 0:
		if weights == 0 {
			mean = limit
		}
		return math.Min(mean, limit), Critical, strings.Join(append(found, in.wrong(parts, 80)...), "; ")
	case in.Errors == nil && in.Temperature == nil:
		return math.NaN(), Unknown, unknown(&in)
	case mean < 50 || worst < 30:
		return math.Min(mean, 49), Critical, strings.Join(in.wrong(parts, 80), "; ")
	case mean < 80 || worst < 80:
		return math.Min(mean, 79), Warning, strings.Join(in.wrong(parts, 80), "; ")
	}
	if cost := in.wrong(parts, 100); len(cost) > 0 {
		return mean, Healthy, strings.Join(cost, "; ")
	}
	return mean, Healthy, nothingWrong(parts)
}

// wrong says what costs each component the points that it has less than enough.
func (in *Inputs) wrong(parts []component, enough float64) (out []string) {
	for _, p := range parts {
		if p.score >= enough {
			continue
		}
		if reason := in.reason(p.name); reason != "" {
			out = append(out, reason)
		}
	}
	return out
}

// gates are the faults that no average may hide, and the score they allow.
func gates(in *Inputs) (limit float64, found []string) {
	limit = 100
	add := func(most float64, format string, args ...any) {
		limit = math.Min(limit, most)
		found = append(found, fmt.Sprintf(format, args...))
	}
	if in.Hang != "" {
		add(0, "hangs or is in reset (%s)", in.Hang)
	}
	if in.Unreadable != "" {
		add(0, "does not answer (%s)", in.Unreadable)
	}
	if in.Errors != nil && in.Errors.Uncorrectable > 0 {
		add(30, "%s", plural(in.Errors.Uncorrectable, "uncorrectable error"))
	}
	if in.BadPages != nil && *in.BadPages > 0 {
		add(30, "%s", plural(uint64(*in.BadPages), "bad memory page"))
	}
	return limit, found
}

func unknown(in *Inputs) string {
	if in.Suspended {
		return "suspended, and without error counters"
	}
	return "neither error counters nor a temperature with its limit"
}

// nothingWrong lists what was looked at.
func nothingWrong(parts []component) string {
	b := append(make([]byte, 0, 80), "nothing wrong with "...)
	for i, p := range parts {
		switch {
		case i > 0 && i == len(parts)-1:
			b = append(b, " and "...)
		case i > 0:
			b = append(b, ", "...)
		}
		b = append(b, p.name...)
	}
	return string(b)
}

func plural(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
