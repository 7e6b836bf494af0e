package exporter

import (
	"slices"
	"time"

	"concourse-ci-machine/internal/exporter/sysfile"
)

// The signals of a hang or a reset, by their label in rocm_gpu_hang_info.
const (
	signalTimeout = "timeout"     // a reading does not come back from the kernel
	signalReset   = "in_reset"    // the driver turns all readings away though the GPU is awake
	signalDump    = "devcoredump" // the driver left a dump of the device, as it does in a reset
	signalFatal   = "ras_fatal"   // the driver counted another fatal error (ras/event_state)
	signalKernel  = "kernel_log"  // the kernel's log speaks of a ring timeout or a reset of this GPU
)

const (
	// resetPolls in a row, and at least resetTime, make refused readings a reset.
	resetPolls = 3
	resetTime  = 5 * time.Second
	// afterEvent is how long an event that has no end of its own is shown: long
	// enough for every Prometheus to see it.
	afterEvent = 5 * time.Minute
	day        = 24 * time.Hour
	maxEvents  = 100
)

// hangState is what the signals were.
type hangState struct {
	refused, answered int // readings of this scrape
	polls             int // scrapes in a row in which all was refused
	since             time.Time
	fatal             time.Time            // when a fatal error was counted last
	notes             map[string]time.Time // events told by others: until when
	dumped            bool
	now               []string
	total             float64
	events            []time.Time // within a day
}

// begin starts the counting of one scrape.
func (h *hangState) begin() { h.refused, h.answered = 0, 0 }

// asked notes that a reading failed.
func (h *hangState) asked(err error) {
	if sysfile.Refused(err) {
		h.refused++
	}
}

// end tells which signals stand. awake says that runtime power management has
// not put the GPU to sleep: a sleeping one refuses readings as well.
func (h *hangState) end(now time.Time, awake bool) {
	if awake && h.refused > 0 && h.answered == 0 {
		if h.polls == 0 {
			h.since = now
		}
		h.polls++
	} else {
		h.polls = 0
	}
	var signals []string
	if h.polls >= resetPolls && now.Sub(h.since) >= resetTime {
		signals = append(signals, signalReset)
	}
	if h.dumped {
		signals = append(signals, signalDump)
	}
	if !h.fatal.IsZero() && now.Sub(h.fatal) < afterEvent {
		signals = append(signals, signalFatal)
	}
	for _, name := range []string{signalKernel, signalTimeout} {
		if until, ok := h.notes[name]; ok && now.Before(until) {
			signals = append(signals, name)
		}
	}
	if len(signals) > 0 && len(h.now) == 0 {
		h.count(now)
	}
	h.now = signals
}

// count adds an event.
func (h *hangState) count(now time.Time) {
	h.total++
	h.events = append(slices.DeleteFunc(h.events, func(t time.Time) bool { return now.Sub(t) >= day }), now)
	if len(h.events) > maxEvents {
		h.events = h.events[1:]
	}
}

// note shows a signal from now on for afterEvent.
func (h *hangState) note(signal string, now time.Time) {
	if h.notes == nil {
		h.notes = map[string]time.Time{}
	}
	h.notes[signal] = now.Add(afterEvent)
}

// inDay is how many events there were in the last 24 h.
func (h *hangState) inDay(now time.Time) (n int) {
	for _, t := range h.events {
		if now.Sub(t) < day {
			n++
		}
	}
	return n
}
