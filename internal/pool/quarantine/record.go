// Package quarantine decides which GPUs of a unit tasks may use. GPUs are quarantined
// because of faults or by an operator. Decide is a pure function of the previous record and
// the exporter's readings. The package gives GPUs to no task, reads no hardware, and ends
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
	Quarantined State = "withheld"
	Proving     State = "proving" // it is healthy again, and is in its probation
)

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
	Manual Policy = "manual" // only operators withhold GPUs
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
	GPUs    []GPU  `json:"gpus"` // in the exporter's order
	// Runs are the tasks that have GPUs or had them a moment ago. FaultyRuns are those with
	// faults, at most maxFaultyRuns, the newest last. Verdicts counts them since the first.
	Runs       []Run           `json:"runs,omitempty"`
	FaultyRuns []Run           `json:"met,omitempty"`
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
	Since         time.Time `json:"since"`        // of the state
	Reason        string    `json:"why"`          // of the state, in words
	QuarantinedBy Actor     `json:"by,omitempty"` // "" in service
	// Fault is the fault that quarantined it first; nil if there was none.
	Fault *health.Fault `json:"fault,omitempty"`
	// CommonCause reports that all GPUs of the unit got faults at the same look.
	CommonCause bool `json:"together,omitempty"`
	// ManualReturn reports that it had too many faults to return automatically.
	ManualReturn bool `json:"person,omitempty"`

	// ActiveFaults are the faults at the last look that saw it.
	ActiveFaults []health.Fault `json:"standing,omitempty"`
	// KnownFaults are the faults at the last look that a task which begins later did not
	// cause.
	KnownFaults []health.Fault `json:"told,omitempty"`
	// Blamed lists different tasks in a row that had faults only on it.
	Blamed []string `json:"blamed,omitempty"`
	// Programs has the ends of programs on it, the last one last. Suspicions are the times
	// of quarantines for crashes alone. Warning is drawn from the ends and quarantines no GPU.
	Programs   []ProgramEnds `json:"programs,omitempty"`
	Suspicions []time.Time   `json:"suspicions,omitempty"`
	Warning    *health.Fault `json:"warning,omitempty"`
	// Idle is the number of bytes of its memory in use when no task has it. Slack is how
	// many more are allowed. DirtySince is when more were in use after a task's end. Busy
	// and Holder are from the last look.
	Idle       *float64   `json:"idle,omitempty"`
	Slack      float64    `json:"slack,omitempty"`
	DirtySince *time.Time `json:"dirty,omitempty"`
	Busy       bool       `json:"busy,omitempty"`
	Holder     string     `json:"holder,omitempty"`
	// OpenIn is a container of Concourse that had it open at the last look without a lease;
	// "" for none.
	OpenIn string `json:"open_in,omitempty"`
	// Acknowledged are faults that were active when an operator returned the GPU.
	Acknowledged []health.Fault `json:"acknowledged,omitempty"`

	OutSince      *time.Time    `json:"out,omitempty"`      // since when it is not in service
	OutSeconds    float64       `json:"out_seconds"`        // earlier time out of service
	Times         uint64        `json:"times"`              // times quarantined for its health since the unit has it
	CriticalSince *time.Time    `json:"critical,omitempty"` // since when it is critical without a gate
	HealthySince  *time.Time    `json:"well,omitempty"`     // since when it is healthy, while proving
	Strikes       []time.Time   `json:"strikes,omitempty"`  // times of faults in service within a day
	PendingProof  *PendingProof `json:"await,omitempty"`    // health check after the probation
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

// OutOfService returns the GPUs that no new container gets.
func (r *Record) OutOfService() (out []GPU) {
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
	case to == InService && g.OutSince != nil:
		g.OutSeconds += max(0, at.Sub(*g.OutSince).Seconds())
		g.OutSince = nil
	case to != InService && g.OutSince == nil:
		g.OutSince = &at
	}
	g.State, g.Since, g.Reason = to, at, why
	g.HealthySince, g.PendingProof = nil, nil
	if to == InService {
		g.QuarantinedBy, g.Fault, g.CommonCause, g.ManualReturn, g.CriticalSince = "", nil, false, false, nil
	}
}

// OutFor returns the time out of service up to now, in seconds.
func (g *GPU) OutFor(now time.Time) float64 {
	if g.OutSince == nil {
		return g.OutSeconds
	}
	return g.OutSeconds + max(0, now.Sub(*g.OutSince).Seconds())
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
	if g.State == InService || g.OutSince == nil {
		return ""
	}
	if g.QuarantinedBy == ByHand {
		return "is withheld since " + g.Since.UTC().Format(stamp) + " by hand: " + g.Reason
	}
	text := "is withheld since " + g.OutSince.UTC().Format(stamp)
	if g.Fault != nil {
		text += ": "
		if g.CommonCause {
			text += AllAtOnce + ": "
		}
		text += describe(*g.Fault)
	}
	switch {
	case g.State == Proving:
		text += "; well again since " + g.Since.UTC().Format(stamp) + ", and on trial"
		if g.PendingProof != nil {
			text += ": " + g.PendingProof.Text
		}
	case g.ManualReturn:
		text += "; too often within a day, so a person has to return it"
	}
	return text
}
