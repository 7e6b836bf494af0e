package page

import (
	"cmp"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
)

// meter shows a reading in words, as a bar if its limit is known, and its past. The numbers
// of the bar are in the unit of its text. From Low on it is near its limit, and from High on
// too near.
type meter struct {
	Label, Text, Note string
	Short             string // for narrow places
	Value, Max        string
	Low, High         string // "" without thresholds
	Chart             *chart
	HighLine          int // of High in the chart: distance from the top
}

// thresholds are shares of a limit.
type thresholds struct{ low, high float64 }

// The thresholds of the colours. Alerts begin at the same high values, see
// AMDGPUHighTemperature and AMDGPUMemoryUsageHigh. A GPU may run at its power limit, so
// this is never too near.
var (
	heat     = &thresholds{.85, .95}
	capacity = &thresholds{.90, .95}
	draw     = &thresholds{.95, 1}
)

// past holds the values of a history and their distance in seconds.
type past struct {
	values []*float64
	every  float64
}

// metersOf returns the meters of a GPU: always the same four, because they are columns.
func metersOf(s *api.Status) []meter {
	h := cmp.Or(s.History, &api.History{})
	temperature := newMeter(s, "Temperature", celsius, s.Temperature, s.TemperatureLimit, heat,
		past{h.Temperature, h.Interval})
	temperature.Note = s.Sensor
	busy := h.Activity
	if s.Partitions > 1 {
		busy = nil // it is the history of the partition
	}
	return []meter{
		temperature,
		newMeter(s, "Power", watts, s.Power, s.PowerCap, draw, past{h.Power, h.Interval}),
		newMeter(s, "Memory", gib, s.MemoryUsed, s.MemoryTotal, capacity, past{h.Memory, h.Interval}),
		loadMeter(s, loadOf(s), past{busy, h.Interval}),
	}
}

// newMeter shows value and limit, and the past.
func newMeter(s *api.Status, label string, u unit, value, limit *float64, t *thresholds, p past) meter {
	m := meter{Label: label, Text: "not known", Short: "–"}
	if limit != nil && *limit <= 0 {
		limit = nil
	}
	m.Chart = chartOf(u, p.values, p.every, limit)
	switch {
	case value == nil && s.Suspended:
		m.Text, m.Short = "asleep", "asleep"
	case value != nil:
		m.Short = u.text(*value)
		m.Text = m.Short
		if limit != nil {
			m.Text = u.number(*value) + " of " + u.text(*limit)
			m.Value, m.Max = u.number(*value), u.number(*limit)
		}
	}
	if limit != nil && t != nil {
		m.Low, m.High = u.number(*limit*t.low), u.number(*limit*t.high)
		if m.Chart != nil {
			m.HighLine = m.Chart.Top - u.steps(*limit*t.high)
			m.Chart.Range += "; the line is at " + u.text(*limit*t.high)
		}
	}
	return m
}

// loadMeter shows a share of the time. It has no limit, because a busy GPU is a good GPU.
func loadMeter(s *api.Status, value *float64, p past) meter {
	whole := 1.0
	m := newMeter(s, "Load", percent, value, &whole, nil, p)
	if value != nil {
		m.Text = percent.text(*value)
	}
	return m
}
