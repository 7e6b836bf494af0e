package amdgpu

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"concourse-ci-machine/internal/gpu/sysfile"
)

// The signals of a hang or a reset.
const (
	SignalTimeout    = "timeout"     // a reading does not return from the kernel
	SignalReset      = "in_reset"    // the driver rejects all readings although the GPU is awake
	SignalDump       = "devcoredump" // the driver wrote a dump of the device, as in a reset
	SignalFatal      = "ras_fatal"   // the driver counted another fatal error (ras/event_state)
	SignalKernel     = "kernel_log"  // the kernel's log reports a hang or reset of this GPU, or such an Xid
	SignalLost       = "lost"        // NVIDIA's driver reports that the GPU fell off the bus
	SignalNeedsReset = "needs_reset" // NVIDIA's driver reports that the GPU needs a reset
)

// Signals lists all signals.
var Signals = []string{SignalTimeout, SignalReset, SignalDump, SignalFatal, SignalKernel, SignalLost, SignalNeedsReset}

const (
	// ResetReadings rejected readings in a row, over at least resetTime, mean a reset.
	ResetReadings = 3
	resetTime     = 5 * time.Second
	// afterEvent is the time that an event without an end is shown: long enough for every
	// Prometheus to scrape it.
	afterEvent = 5 * time.Minute
	day        = 24 * time.Hour
	maxEvents  = 100
)

// Hangs holds the signals of a hang or a reset.
type Hangs struct {
	Signals []string // current signals
	Events  float64  // since the program was started
	InDay   int      // number in the last 24 h
}

// HangLog records the signals. It can be read while a reading hangs.
type HangLog struct {
	mu                sync.Mutex
	refused, answered int // files in this reading
	polls             int // readings in a row with only rejected files
	since             time.Time
	now               []string
	total             float64
	events            []time.Time // within a day
}

// begin starts the counts of one reading.
func (h *HangLog) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused, h.answered = 0, 0
}

// noteError records a failed reading of a file.
func (h *HangLog) noteError(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if sysfile.Refused(err) {
		h.refused++
	}
}

// noteAnswer records that the driver answered.
func (h *HangLog) noteAnswer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answered++
}

// end records the current signals. awake means that the GPU is not suspended: a suspended
// GPU rejects readings too. fatal is the time of the last fatal error.
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
	out := Hangs{Signals: h.now, Events: h.total}
	for _, t := range h.events {
		if now.Sub(t) < day {
			out.InDay++
		}
	}
	return out
}

// answers records which essential files answered. A single answer does not prove health,
// because the PCI core and the driver's memory answer for a dead GPU. A single failure does
// not prove a fault, because many cards lack some files. A file that answered before and
// fails now is a sign.
type answers struct {
	before  map[string]bool // answered since the device was opened
	now     map[string]bool // answered in this reading
	skipped map[string]bool // rejected for now, or unsupported in the present mode
	failed  map[string]bool // with an error that no healthy GPU returns

	division string // the modes in which before is valid
	readings int    // readings in a row with lost files
	since    time.Time
}

// essentialFiles lists prefixes of files that every healthy GPU answers. Fans and limits
// are left out, because their answers depend on settings.
var essentialFiles = []string{"gpu_metrics", "gpu_busy_percent", "mem_info_vram_", "temp", "power1_"}

func (a *answers) begin() {
	a.now, a.skipped, a.failed = map[string]bool{}, map[string]bool{}, map[string]bool{}
	if a.before == nil {
		a.before = map[string]bool{}
	}
}

// note records the result of reading a file.
func (a *answers) note(file string, err error) {
	switch {
	case a.now == nil || !slices.ContainsFunc(essentialFiles,
		func(name string) bool { return strings.HasPrefix(file, name) }):
	case err == nil:
		a.now[file] = true
	case sysfile.Vanished(err):
	case sysfile.Refused(err) || sysfile.Absent(err):
		a.skipped[file] = true
	default:
		a.failed[file] = true
	}
}

// reset drops the previous answers, because a driver that is bound again may show other
// files.
func (a *answers) reset() {
	*a = answers{now: a.now, skipped: a.skipped, failed: a.failed, before: map[string]bool{}}
}

// end returns the lost files, sorted, once they were lost in as many readings and for as
// long as a reset requires. modes returns the present partitioning of the GPU.
func (a *answers) end(now time.Time, modes func() string) (lost []string) {
	for file := range a.before {
		if !a.now[file] && !a.skipped[file] {
			lost = append(lost, file)
		}
	}
	if len(a.now) == 0 && len(a.before) == 0 { // no previous answers, and no answer now
		lost = slices.Collect(maps.Keys(a.failed))
	}
	if a.division == "" {
		a.division = modes()
	} else if len(lost) > 0 {
		if division := modes(); division != a.division { // the set of answering files depends on it
			a.reset()
			a.division, lost = division, nil
		}
	}
	maps.Copy(a.before, a.now)
	if len(lost) == 0 {
		a.readings = 0
		return nil
	}
	if a.readings == 0 {
		a.since = now
	}
	if a.readings++; a.readings < ResetReadings || now.Sub(a.since) < resetTime {
		return nil
	}
	slices.Sort(lost)
	return lost
}
