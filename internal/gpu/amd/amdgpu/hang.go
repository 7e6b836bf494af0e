package amdgpu

import (
	"slices"
	"sync"
	"time"

	"concourse-ci-machine/internal/gpu/sysfile"
)

// The signals of a hang or a reset.
const (
	SignalTimeout = "timeout"     // a reading does not come back from the kernel
	SignalReset   = "in_reset"    // the driver turns all readings away though the GPU is awake
	SignalDump    = "devcoredump" // the driver left a dump of the device, as it does in a reset
	SignalFatal   = "ras_fatal"   // the driver counted another fatal error (ras/event_state)
	SignalKernel  = "kernel_log"  // the kernel's log speaks of a ring timeout or a reset of this GPU, or of an Xid of that kind
	SignalLost    = "lost"        // the GPU does not answer on PCIe: NVIDIA's driver calls it fallen off the bus
	SignalNeeds   = "needs_reset" // NVIDIA's driver says that the GPU does not work before it is reset
)

// Signals are all of them.
var Signals = []string{SignalTimeout, SignalReset, SignalDump, SignalFatal, SignalKernel, SignalLost, SignalNeeds}

const (
	// ResetReadings in a row, and at least resetTime, make refused readings a reset.
	ResetReadings = 3
	resetTime     = 5 * time.Second
	// afterEvent is how long an event that has no end of its own is shown: long
	// enough for every Prometheus to see it.
	afterEvent = 5 * time.Minute
	day        = 24 * time.Hour
	maxEvents  = 100
)

// Hangs is what says that a GPU hangs or is being reset.
type Hangs struct {
	Signals []string // that stand now
	Events  float64  // since the program was started
	InDay   int      // of these, in the last 24 h
}

// HangLog is what the signals were. It can be asked while a reading hangs.
type HangLog struct {
	mu                sync.Mutex
	refused, answered int // readings of files in this reading
	polls             int // readings in a row in which all was refused
	since             time.Time
	now               []string
	total             float64
	events            []time.Time // within a day
}

// begin starts the counting of one reading.
func (h *HangLog) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused, h.answered = 0, 0
}

// asked notes that a reading failed.
func (h *HangLog) asked(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if sysfile.Refused(err) {
		h.refused++
	}
}

// answer notes that the driver answered.
func (h *HangLog) answer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answered++
}

// end tells which signals stand. awake says that runtime power management has
// not put the GPU to sleep: a sleeping one refuses readings as well. fatal is when a
// fatal error was counted last.
func (h *HangLog) end(now time.Time, awake bool, seen Seen, fatal time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if awake && h.refused > 0 && h.answered == 0 {
		if h.polls == 0 {
			h.since = now
		}
		h.polls++
	} else {
		h.polls = 0
	}
	var signals []string
	if h.polls >= ResetReadings && now.Sub(h.since) >= resetTime {
		signals = append(signals, SignalReset)
	}
	if seen.Dumped {
		signals = append(signals, SignalDump)
	}
	if Recent(now, fatal) {
		signals = append(signals, SignalFatal)
	}
	if Recent(now, seen.Logged) {
		signals = append(signals, SignalKernel)
	}
	h.stand(now, signals)
}

// Recent reports whether an event is shown that has no end of its own. The zero time is
// never.
func Recent(now, event time.Time) bool { return !event.IsZero() && now.Sub(event) < afterEvent }

// Stand notes the signals of a reading by another reader.
func (h *HangLog) Stand(now time.Time, signals []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stand(now, signals)
}

// Missed notes that a reading did not come back in time: one event, however often
// it is asked for.
func (h *HangLog) Missed(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stand(now, []string{SignalTimeout})
}

// stand counts an event when signals begin.
func (h *HangLog) stand(now time.Time, signals []string) {
	if len(signals) > 0 && len(h.now) == 0 {
		h.total++
		h.events = append(slices.DeleteFunc(h.events, func(t time.Time) bool { return now.Sub(t) >= day }), now)
		if len(h.events) > maxEvents {
			h.events = h.events[1:]
		}
	}
	h.now = signals
}

// Now is what stands, and what there was.
func (h *HangLog) Now(now time.Time) Hangs {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := Hangs{Signals: h.now, Events: h.total}
	for _, t := range h.events {
		if now.Sub(t) < day {
			out.InDay++
		}
	}
	return out
}
