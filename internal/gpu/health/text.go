package health

import (
	"fmt"
	"strings"

	"concourse-ci-machine/internal/base/wellknown"
)

// Text says a fault in words.
func (f Fault) Text() string {
	switch f.Kind {
	case Hang:
		return "hangs or is in reset (" + strings.Join(f.Signals, ", ") + ")"
	case Unreadable:
		if f.File == "" {
			return "does not answer (no file gives a value)"
		}
		if f.Value > 0 {
			return "does not answer (" + plural(f.Value, "file") + " that did before, " + f.File + " for one)"
		}
		return "does not answer (reading " + f.File + " does not end)"
	case UncorrectableErrors:
		return plural(f.Value, "uncorrectable error")
	case BadPages:
		return plural(f.Value, "bad memory page")
	case DeferredErrors:
		return plural(f.Value, "deferred error")
	case CorrectableErrors:
		return plural(f.Value, "correctable error")
	case Hot:
		return fmt.Sprintf("%s at %.0f of %.0f °C", f.Component, f.Value, f.Limit)
	case Throttled:
		return fmt.Sprintf("throttled by temperature %.0f %% of the time", f.Value*100)
	case Reset:
		return fmt.Sprintf("hangs and resets in 24 h: %.0f", f.Value)
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

// Reason says a judgement in words: what is wrong, or what was looked at where
// nothing is.
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

func plural(n float64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%.0f %ss", n, what)
}

// Explanation says in short what an error means. The command `dispatch explain` has
// the whole text under the same number.
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

// Explain is what is wrong with a GPU, each error once; none where it is well.
func Explain(codes []int) (out []Explanation) {
	for _, code := range codes {
		out = append(out, Explanation{code, wellknown.GPUError(code), explanations[code]})
	}
	return out
}
