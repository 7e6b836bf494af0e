package fixedclocks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reading holds the state of a GPU with fixed clocks at one look.
type Reading struct {
	At            time.Time
	Failed        string   // why it could not be read; "" if the rest is valid
	Level         Level    // set in the driver
	ThrottleKnown bool     // the driver reports whether it is throttled
	Limits        []string // that slow the GPU down now
	// Counters has the firmware's counters of limits. It is empty if the firmware has none.
	Counters Counters
	Busy     bool  // graphics or compute run nearly all the time
	Clocks   []MHz // that the driver reports
}

// maxShare bounds the part of the time between two looks under a limit. Less is below the
// noise of any measurement.
const maxShare = .01

// Judge returns the record after a look. A problem stays in the record with its time.
func Judge(r Measurement, now Reading) Measurement {
	why := findProblem(r, now)
	if now.Busy && r.Busy {
		clocks, left := addClocks(r.Clocks, r.Level, now.Clocks)
		r.Clocks, why = clocks, cmp.Or(why, left)
	}
	if why != "" {
		r.MarkInvalid(why, now.At)
	}
	r.Looked, r.Looks, r.Counters, r.Busy = now.At, r.Looks+1, now.Counters, now.Busy
	return r
}

func findProblem(r Measurement, now Reading) string {
	switch {
	case now.Failed != "":
		return now.Failed
	case now.Level != r.Level:
		return fmt.Sprintf("another program changed its clocks: %s is %s, not %s", levelFile, string(now.Level),
			string(r.Level))
	case !now.ThrottleKnown:
		return "its driver does not report throttling"
	case len(now.Limits) > 0:
		return throttled(now.Limits, "")
	}
	all, counted := r.Counters.ticksOf("")
	ticks, still := now.Counters.ticksOf("")
	if len(r.Counters) == 0 { // the first look
		return ""
	}
	if counted && (!still || ticks < all) {
		return "the GPU was reset"
	}
	var limits []string
	most := 0.
	for _, c := range now.Counters {
		before, known := r.Counters.ticksOf(c.Reason)
		switch {
		case c.Reason == "" || !known:
			continue
		case c.Ticks < before:
			return "the GPU was reset"
		}
		share := 0.
		if grown := c.Ticks - before; grown > 0 && !counted {
			share = 1 // the length of a tick is not known
		} else if ticks > all {
			share = min(1, float64(grown)/float64(ticks-all))
		}
		if share >= maxShare {
			limits, most = append(limits, c.Reason), max(most, share)
		}
	}
	if len(limits) == 0 {
		return ""
	}
	share := ""
	if counted {
		share = fmt.Sprintf(", %.0f %% of the time between two looks", 100*most)
	}
	return throttled(limits, share)
}

func throttled(limits []string, share string) string {
	slices.Sort(limits)
	return "it was throttled: " + strings.Join(limits, ", ") + share
}

// Clock holds the values of one clock of a GPU while the GPU was busy, in MHz.
type Clock struct {
	Domain string // gfx, mem
	First  int
	Min    int
	Max    int
}

// MHz holds the value of a clock at one look.
type MHz struct {
	Domain string
	Value  int
}

// clockBand bounds how far a clock may be from its first value, in percent. Two runs then
// differ by less than the usual limit for slower programs allows for noise.
const clockBand = 5

// fixes reports whether a level fixes a clock. perf_determinism limits only the graphics
// clock.
func (l Level) fixes(domain string) bool { return domain == "gfx" || l == Standard }

// addClocks adds the clocks of a look to those of earlier looks, and returns the first
// problem. It is called if the GPU was busy at this look and the one before, because clocks
// are still changing when work begins or ends.
func addClocks(seen []Clock, l Level, now []MHz) (all []Clock, why string) {
	all = append(all, seen...)
	for _, n := range now {
		c := clockOf(&all, n)
		c.Min, c.Max = min(c.Min, n.Value), max(c.Max, n.Value)
		if away := n.Value - c.First; why == "" && l.fixes(n.Domain) && 100*max(away, -away) > clockBand*c.First {
			why = fmt.Sprintf("its %s clock was %d MHz, and %d MHz at first", n.Domain, n.Value, c.First)
		}
	}
	return all, why
}

// clockOf returns the entry of a clock, and adds it if it is missing.
func clockOf(all *[]Clock, n MHz) *Clock {
	for i, c := range *all {
		if c.Domain == n.Domain {
			return &(*all)[i]
		}
	}
	*all = append(*all, Clock{n.Domain, n.Value, n.Value, n.Value})
	return &(*all)[len(*all)-1]
}
