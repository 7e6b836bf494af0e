package verdict

import (
	"fmt"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

// Limits of the comparison with the last good runs of the same program.
const (
	leastEarlier = 2
	tooLong      = 1.5 // of the longest of them
	slower       = .7  // of their mean work a second
	leastWork    = 5.  // seconds or more of a kind of work, below which it is not compared
)

var slowerRule = Rule{Code: "stopped-slow", Kind: Unknown, find: stoppedSlow,
	When:   "stopped at work, after 1.5 times the longest of 2 to 5 good runs of its program on this worker",
	Source: "record",
	Fix:    "Look for what differs from these runs. A longer timeout alone hides it."}

// pace compares a task with the last good runs of its program.
type pace struct {
	runs         int
	longest      float64 // seconds of these runs
	rate         float64 // of the kind of work that is slowest, as a part of these runs'
	slowest      string  // this kind of work
	longer, slow bool
}

func (f *facts) pace() (p pace, ok bool) {
	if f.End == nil || len(f.End.Earlier) < leastEarlier {
		return p, false
	}
	p.runs, p.rate = len(f.End.Earlier), 1
	own := taskrecord.PaceOf(f.Record)
	if own.Seconds <= 0 {
		return p, false
	}
	for _, kind := range []struct {
		name string
		of   func(taskrecord.Pace) float64
	}{
		{"GPU time", func(e taskrecord.Pace) float64 { return e.GPU }},
		{"CPU time", func(e taskrecord.Pace) float64 { return e.CPU }},
		{"energy", func(e taskrecord.Pace) float64 { return e.Joules / 100 }},
		{"output to disk", func(e taskrecord.Pace) float64 { return e.Written / (1 << 20) }},
	} {
		work, seconds := 0., 0.
		for _, e := range f.End.Earlier {
			work, seconds = work+kind.of(e), seconds+e.Seconds
		}
		if kind.name == "energy" && own.Joules == 0 { // it was not measured
			continue
		}
		if seconds > 0 && work/float64(p.runs) >= leastWork {
			if rate := kind.of(own) / own.Seconds / (work / seconds); rate < p.rate {
				p.rate, p.slowest = rate, kind.name
			}
		}
	}
	p.longest = slices.MaxFunc(f.End.Earlier, func(a, b taskrecord.Pace) int { return int(a.Seconds - b.Seconds) }).Seconds
	p.longer, p.slow = own.Seconds > tooLong*p.longest, p.rate < slower
	return p, true
}

// text continues a sentence about the task.
func (p pace) text() string {
	text := fmt.Sprintf("; its last %d good runs took %.0f s at most", p.runs, p.longest)
	if p.slow {
		return text + fmt.Sprintf(", and it had %.0f %% of their %s a second", p.rate*100, p.slowest)
	}
	return text + ", and it worked at their pace"
}

func stoppedSlow(f *facts) []finding {
	p, known := f.pace()
	return one(known && p.longer && f.stoppedBusy(), finding{
		text:    fmt.Sprintf("%s was stopped after %.0f s while it worked", f.name(), f.lasted) + p.text(),
		numbers: map[string]float64{"seconds": f.lasted, "seconds_before": p.longest, "pace": p.rate}})
}
