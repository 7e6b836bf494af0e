package health

import (
	"fmt"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// Kind classifies a fault.
type Kind string

// The kinds, with the meaning of a fault's Value and Limit.
const (
	Hang                Kind = "hang"                 // Signals has the signs
	Unreadable          Kind = "unreadable"           // File hangs, or one of Value lost files; "": no values
	UncorrectableErrors Kind = "uncorrectable_errors" // a number
	BadPages            Kind = "bad_pages"            // a number
	DeferredErrors      Kind = "deferred_errors"      // a number
	CorrectableErrors   Kind = "correctable_errors"   // a number
	Hot                 Kind = "hot"                  // degrees Celsius of the sensor in Component
	Throttled           Kind = "throttled"            // share of the time, 0 to 1
	Reset               Kind = "reset"                // hangs and resets in 24 h
	LinksDown           Kind = "links_down"           // XGMI links that are up, of those that were
	Narrow              Kind = "narrow_link"          // PCIe lanes
	Slow                Kind = "slow_link"            // PCIe transfers/s of a lane, while the GPU is busy
	Replays             Kind = "replays"              // PCIe packets sent again in a second
	LinkErrors          Kind = "link_errors"          // PCIe errors at the port in Component; "": at the GPU
	RingResets          Kind = "ring_resets"          // rings that were reset in 24 h
	NoCompute           Kind = "no_compute"           // Detail has the cause and the fix
)

// Fault describes a defect of a GPU, or a deduction from its score.
type Fault struct {
	Kind      Kind     `json:"kind"`
	Component string   `json:"component,omitempty"` // a sensor or port
	Value     float64  `json:"value"`
	Limit     float64  `json:"limit,omitempty"` // 0: none
	Signals   []string `json:"signals,omitempty"`
	File      string   `json:"file,omitempty"`
	Detail    string   `json:"detail,omitempty"` // for people
}

// Code returns the number of the error for explain-error, 1 to 8, and 0 without an entry.
func (f Fault) Code() int {
	switch f.Kind {
	case NoCompute:
		return 0
	case BadPages:
		return 1
	case Hang, Unreadable, Reset, RingResets:
		return 2
	case Narrow, Slow, Replays, LinkErrors:
		return 3
	case Hot, Throttled:
		return 4
	case CorrectableErrors:
		return 6
	case LinksDown:
		return 8
	}
	return 7
}

// Signals returns the signals of a hang; nil without one.
func (j Judgement) Signals() []string {
	for _, f := range j.Faults {
		if f.Kind == Hang {
			return f.Signals
		}
	}
	return nil
}

// Codes returns the numbers of a GPU's errors, each once; empty for a healthy GPU.
func (j Judgement) Codes() []int {
	codes := []int{}
	if j.State != Warning && j.State != Critical {
		return codes
	}
	seen := [9]bool{}
	for _, f := range j.Faults {
		seen[f.Code()] = true
	}
	for code, has := range seen {
		if has && code > 0 {
			codes = append(codes, code)
		}
	}
	return codes
}

// Text describes a fault in words.
func (f Fault) Text() string {
	switch f.Kind {
	case Hang:
		return "hangs or is in reset (" + strings.Join(f.Signals, ", ") + ")"
	case Unreadable:
		if f.File == "" {
			return "does not answer (no file gives a value)"
		}
		if f.Value > 0 {
			return "does not answer (" + units.Count(int(f.Value), "file") + " that did before, " + f.File + " for one)"
		}
		return "does not answer (reading " + f.File + " does not end)"
	case NoCompute:
		return "no program can compute on it: " + f.Detail
	case UncorrectableErrors:
		return units.Count(int(f.Value), "uncorrectable error")
	case BadPages:
		return units.Count(int(f.Value), "bad memory page")
	case DeferredErrors:
		return units.Count(int(f.Value), "deferred error")
	case CorrectableErrors:
		return units.Count(int(f.Value), "correctable error")
	case Hot:
		return fmt.Sprintf("%s at %.0f of %.0f °C", f.Component, f.Value, f.Limit)
	case Throttled:
		return fmt.Sprintf("throttled by temperature %.0f %% of the time", f.Value*100)
	case Reset:
		return fmt.Sprintf("hangs and resets in 24 h: %.0f", f.Value)
	case RingResets:
		return fmt.Sprintf("rings reset in 24 h: %.0f, each with the work of one process", f.Value)
	case LinkErrors:
		if f.Component == "" {
			return units.Count(int(f.Value), "PCIe error")
		}
		return units.Count(int(f.Value), "PCIe error") + " at the port " + f.Component
	case LinksDown:
		return fmt.Sprintf("%.0f of %.0f XGMI links up", f.Value, f.Limit)
	case Narrow:
		return fmt.Sprintf("PCIe link x%.0f of x%.0f", f.Value, f.Limit)
	case Slow:
		return fmt.Sprintf("PCIe link at %.1f of %.1f GT/s under load", f.Value/1e9, f.Limit/1e9)
	case Replays:
		return fmt.Sprintf("%.1f PCIe replays a second", f.Value)
	}
	return string(f.Kind)
}

// Reason describes a judgement in words: the faults, or the checked components without
// faults.
func (j Judgement) Reason() string {
	switch {
	case j.State == "":
		return ""
	case j.State == Unknown && j.Suspended:
		return "suspended, and without error counters"
	case j.State == Unknown:
		return "no error counters, no temperature with its limit and no time under limits"
	case len(j.Faults) > 0:
		texts := make([]string, len(j.Faults))
		for i, f := range j.Faults {
			texts[i] = f.Text()
		}
		return strings.Join(texts, "; ")
	}
	var b strings.Builder
	b.WriteString("nothing wrong with ")
	for i, c := range j.Checked {
		switch {
		case i > 0 && i == len(j.Checked)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(c))
	}
	return b.String()
}

// Explanation explains an error in short. The command `dispatch explain` has the whole text
// under the same number.
type Explanation struct {
	Code int    `json:"code"`
	Name string `json:"name"`
	Text string `json:"text"`
}

var explanations = map[int]string{
	1: "The GPU has memory pages that lost data and are no longer used. What ran on it at that time can't be trusted.",
	2: "The GPU does not go on, or was reset by its driver. Work that was on it is lost.",
	3: "The link to the machine is slower or narrower than it can be, or repeats damaged packets: transfers " +
		"take longer.",
	4: "The GPU is so warm that it slows itself down, or soon will. See to its fans and the air around it.",
	6: "Errors were found and repaired. Nothing is lost; a rising number announces worse.",
	7: "Data was lost and could not be repaired. Results of the work that ran on the GPU can't be trusted.",
	8: "A link between GPUs is down: work that spans several GPUs is slow, or fails.",
}

// Explain returns an explanation of each error; empty for a healthy GPU.
func Explain(codes []int) (out []Explanation) {
	for _, code := range codes {
		out = append(out, Explanation{code, wellknown.GPUError(code), explanations[code]})
	}
	return out
}
