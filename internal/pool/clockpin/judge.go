package clockpin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reading is what is seen of a pinned GPU at one look.
type Reading struct {
	At     time.Time
	Failed string   // why nothing was seen; "" where the rest counts
	Level  Level    // as the driver has it
	Known  bool     // the driver tells whether it is throttled
	Limits []string // that slow the GPU down now
	// Counters are those of the limits by which the firmware counts; none where it does not.
	Counters Counters
	Busy     bool  // graphics or compute run nearly all the time
	Clocks   []MHz // those that are told
}

// maxShare of the time between two looks may be under a limit: less is below the noise
// of any measurement.
const maxShare = .01

// Judge is the record after a look. What was wrong once stays wrong for its time.
func Judge(r Record, now Reading) Record {
	why := wrong(r, now)
	if now.Busy && r.Busy {
		clocks, left := see(r.Clocks, r.Level, now.Clocks)
		r.Clocks, why = clocks, cmp.Or(why, left)
	}
	if why != "" {
		r.MarkWrong(why, now.At)
	}
	r.Looked, r.Looks, r.Counters, r.Busy = now.At, r.Looks+1, now.Counters, now.Busy
	return r
}

func wrong(r Record, now Reading) string {
	switch {
	case now.Failed != "":
		return now.Failed
	case now.Level != r.Level:
		return fmt.Sprintf("its clocks were set meanwhile: %s is %s, not %s", levelFile, string(now.Level), string(r.Level))
	case !now.Known:
		return "its driver does not tell whether it is throttled"
	case len(now.Limits) > 0:
		return throttled(now.Limits, "")
	}
	all, counted := r.Counters.of("")
	ticks, still := now.Counters.of("")
	if len(r.Counters) == 0 { // the first look
		return ""
	}
	if counted && (!still || ticks < all) {
		return "the GPU was reset"
	}
	var limits []string
	most := 0.
	for _, c := range now.Counters {
		before, known := r.Counters.of(c.Reason)
		switch {
		case c.Reason == "" || !known:
			continue
		case c.Ticks < before:
			return "the GPU was reset"
		}
		share := 0.
		if grown := c.Ticks - before; grown > 0 && !counted {
			share = 1 // how long a tick is nobody tells
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
