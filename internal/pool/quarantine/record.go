// Package quarantine decides which GPUs of a unit are given to tasks: those in service,
// and not those that are withheld because they are sick, or because a person said so.
// Decide is a pure function of what was decided before and of what the exporter tells
// now; it gives no GPU to anybody, reads none, and ends no task. What it decides lies in
// a file that outlives reboots, see Read.
package quarantine

import (
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/gpu/health"
)

// State is what a GPU is to tasks.
type State string

// The states. Only a GPU that is in service is given to a new container.
const (
	InService State = "in_service"
	Withheld  State = "withheld"
	Proving   State = "proving" // it is well again, and has to stay so for a while
)

// By is who withholds a GPU.
type By string

// Who withholds.
const (
	ByHealth By = "health"
	ByHand   By = "hand" // until a person returns it
)

// Policy is the option gpu-quarantine.
type Policy string

// The policies.
const (
	Auto   Policy = "auto"
	Manual Policy = "manual" // persons alone withhold
	Off    Policy = "off"    // nothing is withheld
)

// Record is what was decided, of all GPUs that the unit has or had.
type Record struct {
	At     time.Time `json:"at"` // of the last look
	Policy Policy    `json:"policy"`
	// Boot and Driver tell one load of the driver from the next: what was counted or
	// acknowledged before is of no meaning after.
	Boot   string `json:"boot"`
	Driver string `json:"driver"`
	// Unknown is why the last look saw nothing, "" where it did.
	Unknown string `json:"unknown,omitempty"`
	GPUs    []GPU  `json:"gpus"` // in the order of the exporter
	// Runs are the tasks that have GPUs, or had them a moment ago; Met those that met
	// faults, at most maxMet, the newest last; Verdicts count them, ever.
	Runs     []Run           `json:"runs,omitempty"`
	Met      []Run           `json:"met,omitempty"`
	Verdicts map[Verdict]int `json:"verdicts,omitempty"`
}

// GPU is one GPU, or one partition.
type GPU struct {
	Name  string `json:"name"`  // see gpu.Slot
	Index int    `json:"index"` // the number that gpu-device-ids takes, when it was seen last
	GFX   string `json:"gfx,omitempty"`

	State State     `json:"state"`
	Since time.Time `json:"since"`        // of the state
	Why   string    `json:"why"`          // it came to the state, in words
	By    By        `json:"by,omitempty"` // "" in service
	// Fault is what withheld it first; nil where no fault did.
	Fault *health.Fault `json:"fault,omitempty"`
	// Together says that all GPUs of the unit fell sick at the same look.
	Together bool `json:"together,omitempty"`
	// Person says that it fell sick too often to be returned by itself.
	Person bool `json:"person,omitempty"`

	// Standing is what was wrong at the last look that saw it.
	Standing []health.Fault `json:"standing,omitempty"`
	// Told is what a task that began after the last look did not bring about.
	Told []health.Fault `json:"told,omitempty"`
	// Blamed are different tasks in a row that met faults on it alone, and Outcomes how
	// its last tasks ended, a letter each; Warning is what these show, and withholds nothing.
	Blamed   []string      `json:"blamed,omitempty"`
	Outcomes string        `json:"outcomes,omitempty"`
	Warning  *health.Fault `json:"warning,omitempty"`
	// Idle is how many bytes of its memory are in use when nobody has it, and Slack how many
	// more may be; Dirty since when there are more though its task has ended. Busy and
	// Holder are who had it at the last look.
	Idle   *float64   `json:"idle,omitempty"`
	Slack  float64    `json:"slack,omitempty"`
	Dirty  *time.Time `json:"dirty,omitempty"`
	Busy   bool       `json:"busy,omitempty"`
	Holder string     `json:"holder,omitempty"`
	// OpenIn is a container of Concourse that had it open at the last look and did not lease
	// it; "" for none.
	OpenIn string `json:"open_in,omitempty"`
	// Acknowledged are faults that a person saw and returned the GPU with.
	Acknowledged []health.Fault `json:"acknowledged,omitempty"`

	Out        *time.Time  `json:"out,omitempty"`      // since when it is not in service
	OutSeconds float64     `json:"out_seconds"`        // it was not in service before that
	Times      uint64      `json:"times"`              // it was withheld for its health since the unit has it
	Critical   *time.Time  `json:"critical,omitempty"` // since when it is critical without a gate
	Well       *time.Time  `json:"well,omitempty"`     // since when it is well, while proving
	Strikes    []time.Time `json:"strikes,omitempty"`  // when it fell sick within a day
	Await      *Await      `json:"await,omitempty"`    // what it waits for that was well for long enough
}

// Find is the GPU of this name, nil where there is none.
func (r *Record) Find(name string) *GPU {
	for i := range r.GPUs {
		if r.GPUs[i].Name == name {
			return &r.GPUs[i]
		}
	}
	return nil
}

// OutOfService are the GPUs that no new container gets.
func (r *Record) OutOfService() (out []GPU) {
	for _, g := range r.GPUs {
		if g.State != InService {
			out = append(out, g)
		}
	}
	return out
}

// clone shares nothing that a decision changes in place.
func (r Record) clone() Record {
	r.GPUs = slices.Clone(r.GPUs)
	return r
}

// move changes the state, which never happens without a reason.
func (g *GPU) move(to State, why string, at time.Time) {
	switch {
	case to == InService && g.Out != nil:
		g.OutSeconds += max(0, at.Sub(*g.Out).Seconds())
		g.Out = nil
	case to != InService && g.Out == nil:
		g.Out = &at
	}
	g.State, g.Since, g.Why = to, at, why
	g.Well, g.Await = nil, nil
	if to == InService {
		g.By, g.Fault, g.Together, g.Person, g.Critical = "", nil, false, false, nil
	}
}

// OutFor is the time that it was not in service, in seconds, up to now.
func (g *GPU) OutFor(now time.Time) float64 {
	if g.Out == nil {
		return g.OutSeconds
	}
	return g.OutSeconds + max(0, now.Sub(*g.Out).Seconds())
}

// Word is what withholds it in a word or two, for a status.
func (g *GPU) Word() string {
	switch {
	case g.By == ByHand:
		return "by hand"
	case g.Fault == nil:
		return "health"
	}
	return strings.ReplaceAll(string(g.Fault.Kind), "_", " ")
}

// stamp is a time in texts for people.
const stamp = "2006-01-02 15:04:05 UTC"

// Stamp is a time as texts for people have it.
func Stamp(t time.Time) string { return t.UTC().Format(stamp) }

// Text says since when and why it is not given to tasks: what a refused build shows.
// "" where it is in service.
func (g *GPU) Text() string {
	if g.State == InService || g.Out == nil {
		return ""
	}
	if g.By == ByHand {
		return "is withheld since " + g.Since.UTC().Format(stamp) + " by hand: " + g.Why
	}
	text := "is withheld since " + g.Out.UTC().Format(stamp)
	if g.Fault != nil {
		text += ": "
		if g.Together {
			text += AllAtOnce + ": "
		}
		text += inWords(*g.Fault)
	}
	switch {
	case g.State == Proving:
		text += "; well again since " + g.Since.UTC().Format(stamp) + ", and on trial"
		if g.Await != nil {
			text += ": " + g.Await.Text
		}
	case g.Person:
		text += "; too often within a day, so a person has to return it"
	}
	return text
}
