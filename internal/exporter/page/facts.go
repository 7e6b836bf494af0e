package page

import (
	"fmt"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
)

// fact is a reading without a bar. A reading that the GPU does not report is left out.
type fact struct {
	Label, Text string
	Most, Unit  string // highest possible value, for wide places, and the unit after it
	Fault       bool   // the value is not as it should be
}

// Wide reports whether a small card has no room for another fact beside this one.
func (f fact) Wide() bool { return len(f.Label)+len(f.Text)+len(f.Unit) > 23 }

// clockLabels are the shown clock domains.
var clockLabels = []struct{ domain, label string }{{"gfx", "Core clock"}, {"mem", "Memory clock"}}

func factsOf(s *api.Status) (out []fact) {
	for _, l := range clockLabels {
		for _, c := range s.Clocks {
			if c.Domain == l.domain {
				f := fact{Label: l.label, Text: megahertz(c.Hertz), Unit: " MHz"}
				if c.Max != nil && *c.Max > 0 {
					f.Most = megahertz(*c.Max)
				}
				out = append(out, f)
			}
		}
	}
	if s.Fan != nil {
		out = append(out, fact{Label: "Fan", Text: fanText(s.Fan)})
	}
	if p := s.PCIeLink; p != nil {
		narrow := p.Lanes != nil && p.LanesMax != nil && *p.Lanes < *p.LanesMax
		out = append(out, fact{Label: "PCIe", Text: linkText(p), Fault: narrow})
	}
	if t := s.Throttling; t != nil {
		out = append(out, fact{Label: "Throttled", Text: throttleText(t), Fault: hot(t)})
	}
	if e := s.ECC; e != nil {
		out = append(out, fact{Label: "ECC errors", Text: eccText(e), Fault: e.Uncorrectable+e.Deferred > 0})
	}
	if s.BadPages != nil && *s.BadPages > 0 {
		out = append(out, fact{Label: "Bad pages", Text: fmt.Sprint(*s.BadPages), Fault: true})
	}
	if s.MemoryTaken != "" {
		out = append(out, fact{Label: "Memory", Text: s.MemoryTaken, Fault: true})
	}
	if s.Energy != nil {
		out = append(out, fact{Label: "Energy", Text: fmt.Sprintf("%.1f kWh", *s.Energy/3.6e6)})
	}
	return out
}

func megahertz(hertz float64) string { return fmt.Sprintf("%.0f", hertz/1e6) }

func fanText(f *api.Fan) string {
	var parts []string
	if f.RPM != nil {
		parts = append(parts, fmt.Sprintf("%.0f rpm", *f.RPM))
	}
	if f.Drive != nil {
		parts = append(parts, percent.text(*f.Drive))
	}
	return strings.Join(parts, ", ")
}

func linkText(p *api.PCIeLink) string {
	var parts []string
	pair := func(format string, now, most *float64, per float64) {
		if now == nil {
			return
		}
		text := fmt.Sprintf(format, *now/per)
		if most != nil && *now < *most {
			text += " of " + fmt.Sprintf(format, *most/per)
		}
		parts = append(parts, text)
	}
	pair("x%.0f", p.Lanes, p.LanesMax, 1)
	pair("%.3g GT/s", p.Speed, p.SpeedMax, 1e9)
	if p.Replays != nil && *p.Replays > 0 {
		parts = append(parts, fmt.Sprintf("%.0f replays", *p.Replays))
	}
	return strings.Join(parts, ", ")
}

// hot reports whether heat slows the GPU down. A power limit may do so in normal operation.
func hot(t *api.Throttling) bool { return t.Share != nil && *t.Share >= .005 }

func throttleText(t *api.Throttling) string {
	text := "no"
	if len(t.Reasons) > 0 {
		text = strings.ReplaceAll(strings.Join(t.Reasons, ", "), "_", " ")
	}
	if hot(t) {
		text += ", by heat " + percent.text(*t.Share)
	}
	return text
}

func eccText(e *api.ECC) string {
	var parts []string
	for _, c := range []struct {
		n    uint64
		name string
	}{{e.Uncorrectable, "uncorrected"}, {e.Deferred, "deferred"}, {e.Correctable, "corrected"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.name))
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}
