package health

import "fmt"

// component is one part of the score.
type component struct {
	name   string
	weight float64
	score  float64 // 0 to 100
}

// The components, by name.
const (
	byErrors      = "errors"
	byTemperature = "temperature"
	byThrottling  = "throttling"
	byEvents      = "events"
	byLinks       = "links"
	byPCIe        = "PCIe"
)

// components are those that there are inputs for; the package comment has the
// steps.
func components(in *Inputs, room *[6]component) []component {
	out := room[:0]
	add := func(name string, weight, score float64) {
		out = append(out, component{name, weight, max(0, min(100, score))})
	}
	if e := in.Errors; e != nil {
		add(byErrors, .25, min(uncorrectable(e), deferred(e), correctable(e)))
	}
	if t := in.Temperature; t != nil && t.Critical > 0 {
		add(byTemperature, .20, slope(t.Value/t.Critical, .75, 100, .90, 70, 1, 30))
	}
	if s := in.ThermalShare; s != nil {
		add(byThrottling, .15, share(*s))
	}
	if n := in.Events; n != nil {
		add(byEvents, .15, events(*n))
	}
	if l := in.Links; l != nil && l.Total > 0 {
		score := 100.0
		if l.Up < l.Total {
			score = 70 * float64(l.Up) / float64(l.Total)
		}
		add(byLinks, .15, score)
	}
	if p := in.PCIe; p != nil {
		add(byPCIe, .10, min(width(p), speed(p), replays(p)))
	}
	return out
}

// reason says what is wrong with a component. One uncorrectable error has a gate
// of its own, which says so.
func (in *Inputs) reason(name string) string {
	switch name {
	case byErrors:
		switch e := in.Errors; {
		case e.Uncorrectable > 0:
			return ""
		case deferred(e) <= correctable(e):
			return plural(e.Deferred, "deferred error")
		}
		return plural(in.Errors.Correctable, "correctable error")
	case byTemperature:
		return fmt.Sprintf("%s at %.0f of %.0f °C", in.Temperature.Sensor, in.Temperature.Value, in.Temperature.Critical)
	case byThrottling:
		return fmt.Sprintf("throttled by temperature %.0f %% of the time", *in.ThermalShare*100)
	case byEvents:
		return fmt.Sprintf("hangs and resets in 24 h: %d", *in.Events)
	case byLinks:
		return fmt.Sprintf("%d of %d XGMI links up", in.Links.Up, in.Links.Total)
	}
	p := in.PCIe
	switch min(width(p), speed(p), replays(p)) {
	case width(p):
		return fmt.Sprintf("PCIe link x%.0f of x%.0f", p.Width, p.MaxWidth)
	case speed(p):
		return fmt.Sprintf("PCIe link at %.1f of %.1f GT/s under load", p.Speed/1e9, p.MaxSpeed/1e9)
	}
	return fmt.Sprintf("%.1f PCIe replays a second", p.Replays)
}

func uncorrectable(e *Errors) float64 {
	if e.Uncorrectable > 0 {
		return 0
	}
	return 100
}

func deferred(e *Errors) float64 {
	switch {
	case e.Deferred >= 10:
		return 40
	case e.Deferred > 0:
		return 70
	}
	return 100
}

func correctable(e *Errors) float64 {
	switch {
	case e.Correctable >= 1000:
		return 40
	case e.Correctable >= 100:
		return 70
	case e.Correctable > 0:
		return 90
	}
	return 100
}

// slope is 100 up to x1, falls in straight lines to y2 at x2 and y3 at x3, and
// is 0 beyond.
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

func share(s float64) float64 {
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

func width(p *PCIe) float64 {
	if p.MaxWidth > 0 && p.Width > 0 {
		return 100 * p.Width / p.MaxWidth
	}
	return 100
}

func speed(p *PCIe) float64 {
	if p.Busy && p.MaxSpeed > 0 && p.Speed > 0 {
		return 100 * p.Speed / p.MaxSpeed
	}
	return 100
}

func replays(p *PCIe) float64 {
	switch {
	case p.Replays > 1:
		return 40
	case p.Replays > .1:
		return 70
	}
	return 100
}
