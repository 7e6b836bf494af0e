package gpureset

import (
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// Result is the state of an attempt.
type Result string

// Values of Result.
const (
	Begun       Result = "begun"       // it runs, or was killed
	Done        Result = "done"        // the driver has reset the GPU
	Failed      Result = "failed"      // the driver refused
	Stopped     Result = "stopped"     // a process opened the GPU before the reset
	Interrupted Result = "interrupted" // it was killed, and the GPU may have been reset
)

// Attempt describes one reset.
type Attempt struct {
	Name   string    `json:"gpu"` // see gpu.Slot.Address
	Group  []string  `json:"group"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended,omitzero"`
	Result Result    `json:"result"`
	Reason string    `json:"reason,omitempty"`
}

// History lists the attempts, the newest last.
type History struct {
	Attempts []Attempt `json:"attempts"`
}

// maxAttempts bounds the history.
const maxAttempts = 64

// historyFile outlives reboots, so that no reboot allows more resets.
// HistoryFile has the History.
const HistoryFile = wellknown.StateDir + "/gpu-resets.json"

var historyFile = statefile.File[History]{Path: HistoryFile, Mode: 0o600}

// lockFile is held during a reset.
const lockFile = wellknown.LockDir + "/gpu-reset"

// Last returns the last attempt on a GPU, and nil for none.
func (h History) Last(name string) *Attempt {
	for i := len(h.Attempts) - 1; i >= 0; i-- {
		if slices.Contains(h.Attempts[i].Group, name) {
			return &h.Attempts[i]
		}
	}
	return nil
}

// String returns the attempt for people: "reset done at 2026-08-01 14:03:05 UTC".
func (a Attempt) String() string {
	text := "reset " + string(a.Result) + " at " + quarantine.FormatTime(a.Began)
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	return text
}

// ReadHistory reads the attempts. It returns none if the file is missing.
func ReadHistory(r host.Root) (History, error) { return historyFile.Read(r) }

// count returns the number of a GPU's attempts within a day, without those that were
// stopped before the reset.
func (h History) count(name string, at time.Time) (n int) {
	for _, a := range h.Attempts {
		if slices.Contains(a.Group, name) && a.Result != Stopped && at.Sub(a.Began).Abs() < day {
			n++
		}
	}
	return n
}

// since reports whether the GPU was reset, or may have been, after a time.
func (h History) since(name string, at time.Time) bool {
	return slices.ContainsFunc(h.Attempts, func(a Attempt) bool {
		return slices.Contains(a.Group, name) && a.Result != Stopped && !a.Began.Before(at)
	})
}

// settle marks attempts that were killed. The caller holds lockFile.
func (h History) settle(at time.Time) History {
	h.Attempts = slices.Clone(h.Attempts)
	for i := range h.Attempts {
		if a := &h.Attempts[i]; a.Result == Begun {
			a.Result, a.Ended = Interrupted, at
		}
	}
	return h
}

// with returns the history with an attempt, which replaces an earlier state of itself.
func (h History) with(a Attempt) History {
	same := func(o Attempt) bool { return o.Name == a.Name && o.Began.Equal(a.Began) }
	h.Attempts = append(slices.DeleteFunc(slices.Clone(h.Attempts), same), a)
	h.Attempts = h.Attempts[max(0, len(h.Attempts)-maxAttempts):]
	return h
}
