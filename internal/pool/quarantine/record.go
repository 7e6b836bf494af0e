// Package quarantine decides which GPUs of a unit tasks may use. GPUs are quarantined
// because of faults or by an operator. Decide is a pure function of the previous record and
// the readings of the GPUs. The package gives GPUs to no task, reads no hardware, and ends
// no task. Its decisions are in a file that outlives reboots, see Read.
package quarantine

import (
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// State is the state of a GPU for tasks.
type State string

// States of a GPU. New containers get only GPUs in service.
const (
	InService   State = "in_service"
	Quarantined State = "quarantined"
	OnProbation State = "on_probation" // healthy again, for less than its probation
)

// String returns the state in words.
func (s State) String() string { return strings.ReplaceAll(string(s), "_", " ") }

// Actor is who quarantined a GPU.
type Actor string

// Values of Actor.
const (
	ByHealth Actor = "health"
	ByHand   Actor = "hand" // until an operator returns it
)

// Policy is the option gpu-quarantine.
type Policy string

// Values of Policy.
const (
	Auto   Policy = "auto"
	Reset  Policy = "reset"  // as Auto, and reset GPUs that nothing uses; records have Auto
	Manual Policy = "manual" // only operators quarantine GPUs
	Off    Policy = "off"    // no GPU is quarantined
)

// Record has the decisions about all GPUs that the unit has or had.
type Record struct {
	At     time.Time `json:"at"` // of the last look
	Policy Policy    `json:"policy"`
	// Boot and Driver identify one load of the driver. Counters and acknowledgements from
	// before it are void.
	Boot   string `json:"boot"`
	Driver string `json:"driver"`
	// Unknown is why the last look had no data; "" if it had.
	Unknown string `json:"unknown,omitempty"`
	GPUs    []GPU  `json:"gpus"` // in the order of the readings
	// Runs are the tasks that have GPUs or had them a moment ago. FaultyRuns are those with
	// faults, at most maxFaultyRuns, the newest last. Verdicts counts them since the first.
	Runs       []Run           `json:"runs,omitempty"`
	FaultyRuns []Run           `json:"faulty_runs,omitempty"`
	Verdicts   map[Verdict]int `json:"verdicts,omitempty"`
}

// Ref names a GPU in a record. A missing GPU keeps the number with which it was seen last.
type Ref struct {
	Name  string `json:"name"`  // see gpu.Slot.Address
	Index int    `json:"index"` // see gpu.Slot
}

// GPU records the state of one GPU or one partition.
type GPU struct {
	Ref
	GFX string `json:"gfx,omitempty"`

	State         State     `json:"state"`
	Since         time.Time `json:"since"`                    // of the state
	Reason        string    `json:"reason"`                   // of the state, in words
	QuarantinedBy Actor     `json:"quarantined_by,omitempty"` // "" in service
	// Fault is the fault that quarantined it first; nil if there was none.
	Fault *health.Fault `json:"fault,omitempty"`
	// CommonCause reports that all GPUs of the unit got faults at the same look.
	CommonCause bool `json:"common_cause,omitempty"`
	// ManualReturn reports that it had too many faults to return automatically.
	ManualReturn bool `json:"manual_return,omitempty"`

	// ActiveFaults are the faults at the last look that saw it.
	ActiveFaults []health.Fault `json:"active_faults,omitempty"`
	// KnownFaults are the faults at the last look that a task which begins later did not
	// cause.
	KnownFaults []health.Fault `json:"known_faults,omitempty"`
	// Blamed lists different tasks in a row that had faults only on it.
	Blamed []string `json:"blamed,omitempty"`
	// Programs has the ends of programs on it, the last one last. Suspicions are the times
	// of quarantines for crashes alone. Warning is drawn from the ends and quarantines no GPU.
	Programs   []ProgramEnds `json:"programs,omitempty"`
	Suspicions []time.Time   `json:"suspicions,omitempty"`
	Warning    *health.Fault `json:"warning,omitempty"`
	// Resets counts hangs and resets with this software. Rise is a warning about it.
	Resets *Resets `json:"resets,omitempty"`
	Rise   string  `json:"rise,omitempty"`
	// Memory has the owners of its memory; nil if they are not known.
	Memory *Memory `json:"memory,omitempty"`
	// Idle is the number of bytes in use that no process has when no task has the GPU. Slack
	// is how many more are allowed. DirtySince is when more were in use after a task's end.
	// BusyAt is the last look at which a task had it, until a later scan of the processes.
	// Holder is from the last look.
	Idle       *float64   `json:"idle,omitempty"`
	Slack      float64    `json:"slack,omitempty"`
	DirtySince *time.Time `json:"dirty_since,omitempty"`
	BusyAt     *time.Time `json:"busy_at,omitempty"`
	Holder     string     `json:"holder,omitempty"`
	// OpenIn is a container of Concourse that had it open at the last look without a lease;
	// "" for none.
	OpenIn string `json:"open_in,omitempty"`
	// Acknowledged are faults that were active when an operator returned the GPU.
	Acknowledged []health.Fault `json:"acknowledged,omitempty"`

	QuarantinedSince   *time.Time          `json:"quarantined_since,omitempty"`    // since when it is not in service
	QuarantineSeconds  float64             `json:"quarantine_seconds"`             // earlier time not in service
	Times              uint64              `json:"times"`                          // quarantines for its health
	CriticalSince      *time.Time          `json:"critical_since,omitempty"`       // without a gate
	HealthySince       *time.Time          `json:"healthy_since,omitempty"`        // on probation
	Strikes            []time.Time         `json:"strikes,omitempty"`              // of a day, in service
	PendingHealthCheck *PendingHealthCheck `json:"pending_health_check,omitempty"` // health check after the probation
}

// Find returns the GPU of this name, and nil if it is missing.
func (r *Record) Find(name string) *GPU {
	for i := range r.GPUs {
		if r.GPUs[i].Name == name {
			return &r.GPUs[i]
		}
	}
	return nil
}

// NotInService returns the GPUs that no new container gets.
func (r *Record) NotInService() (out []GPU) {
	for _, g := range r.GPUs {
		if g.State != InService {
			out = append(out, g)
		}
	}
	return out
}

// clone returns a copy that shares nothing that a decision changes in place.
func (r Record) clone() Record {
	r.GPUs = slices.Clone(r.GPUs)
	return r
}

// move changes the state and records the reason.
func (g *GPU) move(to State, why string, at time.Time) {
	switch {
	case to == InService && g.QuarantinedSince != nil:
		g.QuarantineSeconds += max(0, at.Sub(*g.QuarantinedSince).Seconds())
		g.QuarantinedSince = nil
	case to != InService && g.QuarantinedSince == nil:
		g.QuarantinedSince = &at
	}
	g.State, g.Since, g.Reason = to, at, why
	g.HealthySince, g.PendingHealthCheck = nil, nil
	if to == InService {
		g.QuarantinedBy, g.Fault, g.CommonCause, g.ManualReturn, g.CriticalSince = "", nil, false, false, nil
	}
}

// QuarantinedFor returns the time not in service up to now, in seconds.
func (g *GPU) QuarantinedFor(now time.Time) float64 {
	if g.QuarantinedSince == nil {
		return g.QuarantineSeconds
	}
	return g.QuarantineSeconds + max(0, now.Sub(*g.QuarantinedSince).Seconds())
}

// ShortReason returns the reason of the quarantine in a word or two, for a status.
func (g *GPU) ShortReason() string {
	switch {
	case g.QuarantinedBy == ByHand:
		return "by hand"
	case g.Fault == nil:
		return "health"
	}
	return strings.ReplaceAll(string(g.Fault.Kind), "_", " ")
}

// stamp formats a time in texts for people.
const stamp = "2006-01-02 15:04:05 UTC"

// FormatTime formats a time in texts for people.
func FormatTime(t time.Time) string { return t.UTC().Format(stamp) }

// Text returns since when and why tasks do not get it, as refused builds show it. It
// returns "" in service.
func (g *GPU) Text() string {
	if g.State == InService || g.QuarantinedSince == nil {
		return ""
	}
	if g.QuarantinedBy == ByHand {
		return "has been quarantined since " + g.Since.UTC().Format(stamp) + " by hand: " + g.Reason
	}
	text := "has been quarantined since " + g.QuarantinedSince.UTC().Format(stamp)
	if g.Fault != nil {
		text += ": "
		if g.CommonCause {
			text += AllAtOnce + ": "
		}
		text += describe(*g.Fault)
	}
	switch {
	case g.State == OnProbation:
		text += "; healthy again since " + g.Since.UTC().Format(stamp) + "; on probation"
		if g.PendingHealthCheck != nil {
			text += ": " + g.PendingHealthCheck.Text
		}
	case g.ManualReturn:
		text += "; too often within a day, so an operator must return it"
	}
	return text
}
