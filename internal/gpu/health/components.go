package health

import (
	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
)

// Component is one part of the score.
type Component string

// The components.
const (
	Errors      Component = "errors"
	Temperature Component = "temperature"
	Throttling  Component = "throttling"
	Events      Component = "events"
	Links       Component = "links"
	PCIe        Component = "PCIe"
)

// Weights are the shares of the components in the score. The weights of components without
// values are distributed over the others.
var Weights = map[Component]float64{Errors: .25, Temperature: .20, Throttling: .15, Events: .15, Links: .15, PCIe: .10}

// part holds the score of a component, 0 to 100, and the fault that lowers it. A gate
// reports a fault without a kind.
type part struct {
	component Component
	score     float64
	fault     Fault
}

// measure returns the components with values.
func measure(s *reading.State) (parts []part) {
	add := func(c Component, score float64, f Fault) {
		parts = append(parts, part{c, max(0, min(100, score)), f})
	}
	if e := s.RAS.Errors; e != nil {
		score, fault := counted(e)
		add(Errors, score, fault)
	}
	if t, ok := s.Nearest(); ok && !s.Suspended() {
		add(Temperature, slope(t.Now.Value/t.Critical.Value, .75, 100, .90, 70, 1, 30),
			Fault{Kind: Hot, Component: t.Sensor, Value: t.Now.Value, Limit: t.Critical.Value})
	} else if t := s.Temperature; s.APU() && t.Now.Known && !s.Suspended() {
		// The GPU does not report this limit, and APUs are designed to run at it: at most a
		// warning.
		add(Temperature, max(30, slope(t.Now.Value/apuLimit, .95, 100, 1, 70, 1.05, 30)),
			Fault{Kind: Hot, Component: t.Sensor, Value: t.Now.Value, Limit: apuLimit})
	}
	if share := s.Throttling.ThermalShare; share.Known && !s.Suspended() {
		add(Throttling, throttled(share.Value), Fault{Kind: Throttled, Value: share.Value})
	}
	if n := s.Hangs.RingResets; n > 0 && s.Hangs.InDay == 0 {
		score := 95.
		if n >= manyRingResets {
			score = 70
		}
		add(Events, score, Fault{Kind: RingResets, Value: float64(n)})
	} else {
		add(Events, events(s.Hangs.InDay), Fault{Kind: Reset, Value: float64(s.Hangs.InDay)})
	}
	up, all := 0, 0
	for _, l := range s.XGMI.Links {
		if l.WasUp && l.Up.Known {
			all++
			up += int(l.Up.Value)
		}
	}
	if all > 0 {
		score := 100.0
		if up < all {
			score = 70 * float64(up) / float64(all)
		}
		add(Links, score, Fault{Kind: LinksDown, Value: float64(up), Limit: float64(all)})
	}
	if p := &s.PCIe; p.Lanes.Known && p.LanesMax.Known {
		// Without the other end, only a fault is certain.
		if score, fault := link(p, s.Activity.Graphics.Value >= .5); score < 100 || !p.Hidden {
			add(PCIe, score, fault)
		}
	} else if f := linkErrors(p); f.Kind != "" {
		add(PCIe, errorScore, f)
	}
	return parts
}

// manyRingResets is a day's number that one broken program hardly makes.
const manyRingResets = 10

// Limits of PCIe's errors since the boot. A good link has none for weeks. Links report some
// while they are trained, and a device without an answer at the boot is not fatal.
const (
	manyLinkErrors = 1000 // corrected
	errorScore     = 70
)

// linkErrors returns the worst count of errors at an end of the link, or of one above it. The
// link of an external card or a riser shows them at the port alone.
func linkErrors(p *amdgpu.PCIe) (f Fault) {
	for _, counts := range [][]amdgpu.AERCount{p.AER, p.PortAER} {
		for _, c := range counts {
			many := c.Severity == "correctable" && c.Errors >= manyLinkErrors || c.Severity == "fatal" && c.Errors > 0
			if many && c.Errors > f.Value {
				f = Fault{Kind: LinkErrors, Component: c.Port, Value: c.Errors}
			}
		}
	}
	return f
}

// counted judges error counters. Uncorrectable errors have a gate.
func counted(e *amdgpu.Errors) (float64, Fault) {
	byDeferred, byCorrectable := 100.0, 100.0
	switch {
	case e.Uncorrectable > 0:
		return 0, Fault{}
	case e.Deferred >= 10:
		byDeferred = 40
	case e.Deferred > 0:
		byDeferred = 70
	}
	switch {
	case e.Correctable >= 1000:
		byCorrectable = 40
	case e.Correctable >= 100:
		byCorrectable = 70
	case e.Correctable > 0:
		byCorrectable = 90
	}
	if byDeferred <= byCorrectable {
		return byDeferred, Fault{Kind: DeferredErrors, Value: float64(e.Deferred)}
	}
	return byCorrectable, Fault{Kind: CorrectableErrors, Value: float64(e.Correctable)}
}

// slope returns y1 up to x1, falls in straight lines to y2 at x2 and y3 at x3, and returns
// 0 beyond.
func slope(x, x1, y1, x2, y2, x3, y3 float64) float64 {
	switch {
	case x <= x1:
		return y1
	case x <= x2:
		return y1 + (y2-y1)*(x-x1)/(x2-x1)
	case x < x3:
		return y2 + (y3-y2)*(x-x2)/(x3-x2)
	}
	return 0
}

func throttled(s float64) float64 {
	switch {
	case s <= .1:
		return 100 - 300*s
	case s <= .5:
		return 70 - 100*(s-.1)
	}
	return 60 * (1 - s)
}

func events(n int) float64 {
	switch {
	case n <= 0:
		return 100
	case n >= 5:
		return 0
	}
	return 70 - 15*float64(n-1)
}

// link judges the link to the machine. An idle GPU slows it to save power.
func link(p *amdgpu.PCIe, busy bool) (score float64, f Fault) {
	score, f = 100*p.Lanes.Value/p.LanesMax.Value, Fault{Kind: Narrow, Value: p.Lanes.Value, Limit: p.LanesMax.Value}
	if busy && p.Speed.Known && p.SpeedMax.Known {
		if s := 100 * p.Speed.Value / p.SpeedMax.Value; s < score {
			score, f = s, Fault{Kind: Slow, Value: p.Speed.Value, Limit: p.SpeedMax.Value}
		}
	}
	replays := 100.0
	switch {
	case p.ReplayRate > 1:
		replays = 40
	case p.ReplayRate > .1:
		replays = 70
	}
	if replays < score {
		score, f = replays, Fault{Kind: Replays, Value: p.ReplayRate}
	}
	if errors := linkErrors(p); errors.Kind != "" && errorScore < score {
		score, f = errorScore, errors
	}
	return score, f
}

// apuLimit limits the heat of an APU, in degrees Celsius, because amdgpu has no temp1_crit
// for it (hwmon_attributes_visible in amdgpu_pm.c). AMD's product page has 95 for a Ryzen 7
// 7735HS, which laptops let run to 100 (community.amd.com, thread 751979). The limits of
// other models are unknown.
const apuLimit = 100
