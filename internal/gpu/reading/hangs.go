package reading

import (
	"slices"
	"sync"
	"time"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
)

// The signals of a hang or a reset.
const (
	SignalTimeout    = "timeout"     // a reading does not return from the kernel
	SignalReset      = "in_reset"    // the driver rejects all readings although the GPU is awake
	SignalDump       = "devcoredump" // the driver wrote a dump of the device, as in a reset
	SignalFatal      = "ras_fatal"   // the driver counted another fatal error (ras/event_state)
	SignalKernel     = "kernel_log"  // the kernel's log reports a hang or reset of this GPU, or such an Xid
	SignalLost       = "lost"        // the kernel's log reports that the GPU fell off the bus
	SignalNeedsReset = "needs_reset" // NVIDIA's driver reports that the GPU needs a reset
)

// Signals lists all signals.
var Signals = []string{SignalTimeout, SignalReset, SignalDump, SignalFatal, SignalKernel, SignalLost, SignalNeedsReset}

const (
	// afterEvent is the time that an event without an end is shown: long enough for every
	// Prometheus to scrape it.
	afterEvent = 5 * time.Minute
	// stuckTime is the time in which the driver resets a ring that stopped. Its first attempt
	// waits for the firmware for two seconds.
	stuckTime = 3 * time.Second
	day       = 24 * time.Hour
	maxEvents = 100
)

// Hangs holds the signals of a hang or a reset.
type Hangs struct {
	Signals []string // current signals
	Events  float64  // since the program was started
	InDay   int      // number in the last 24 h
	// RingResets counts the rings that were reset in the last 24 h. Each hurt one process.
	RingResets int
}

// HangLog records the signals. It can be read while a reading hangs.
type HangLog struct {
	mu     sync.Mutex
	polls  int // readings in a row with only rejected files
	since  time.Time
	now    []string
	total  float64
	events []time.Time // within a day
	rings  int
}

// End records the current signals after a reading of an AMD GPU. A suspended GPU rejects
// readings, too.
func (h *HangLog) End(now time.Time, s *amdgpu.State, seen Seen) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.Awake() && s.Refused {
		if h.polls == 0 {
			h.since = now
		}
		h.polls++
	} else {
		h.polls = 0
	}
	var signals []string
	if h.polls >= amdgpu.ResetReadings && now.Sub(h.since) >= amdgpu.ResetTime {
		signals = append(signals, SignalReset)
	}
	hung := Recent(now, seen.Logged) || Recent(now, seen.Stuck) && now.Sub(seen.Stuck) >= stuckTime
	if seen.Dumped && (hung || !Recent(now, seen.Spared)) {
		signals = append(signals, SignalDump)
	}
	if Recent(now, s.Fatal) {
		signals = append(signals, SignalFatal)
	}
	if hung {
		signals = append(signals, SignalKernel)
	}
	if Recent(now, seen.Lost) {
		signals = append(signals, SignalLost)
	}
	h.rings = seen.RingResets
	h.record(now, signals)
}

// Recent reports whether an event without an end is still shown. The zero time is never
// recent.
func Recent(now, event time.Time) bool { return !event.IsZero() && now.Sub(event) < afterEvent }

// Record records the signals of a reading by another reader.
func (h *HangLog) Record(now time.Time, signals []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.record(now, signals)
}

// Missed records that a reading did not return in time. A hanging reading is one event.
func (h *HangLog) Missed(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.record(now, []string{SignalTimeout})
}

// record counts an event when signals begin.
func (h *HangLog) record(now time.Time, signals []string) {
	if len(signals) > 0 && len(h.now) == 0 {
		h.total++
		h.events = append(slices.DeleteFunc(h.events, func(t time.Time) bool { return now.Sub(t) >= day }), now)
		if len(h.events) > maxEvents {
			h.events = h.events[1:]
		}
	}
	h.now = signals
}

// Now returns the current signals and the counts.
func (h *HangLog) Now(now time.Time) Hangs {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := Hangs{Signals: h.now, Events: h.total, RingResets: h.rings}
	for _, t := range h.events {
		if now.Sub(t) < day {
			out.InDay++
		}
	}
	return out
}

// Seen holds signs of a GPU's faults from other sources.
type Seen struct {
	Dumped bool      // the driver wrote a dump of the device
	Logged time.Time // time of the last hang in the kernel's log, or zero
	Lost   time.Time // time of the last message that the GPU fell off the bus
	Stuck  time.Time // a ring of the GPU stopped then, and the log does not have its reset
	Spared time.Time // time of the last reset of a ring alone
	Errors LoggedErrors

	RingResets int // in the last 24 h
}

// LoggedErrors counts memory errors of NVIDIA's GPUs in the kernel's log since the
// exporter's start.
type LoggedErrors struct {
	Uncorrectable   uint64
	Pending, Failed int // replacements of rows or pages: due at the next reset, and failed
}
