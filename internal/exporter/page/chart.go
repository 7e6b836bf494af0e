package page

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
)

// unit is the unit of a reading on the page. A step is its smallest shown difference.
type unit struct {
	Name   string
	per    float64 // base units in one unit
	digits int
}

var (
	celsius = unit{"°C", 1, 0}
	watts   = unit{"W", 1, 0}
	gib     = unit{"GiB", 1 << 30, 1}
	percent = unit{"%", .01, 0}
)

func (u unit) number(v float64) string { return strconv.FormatFloat(v/u.per, 'f', u.digits, 64) }

func (u unit) text(v float64) string { return u.number(v) + " " + u.Name }

func (u unit) steps(v float64) int { return int(math.Round(v / u.per * math.Pow10(u.digits))) }

// width is the number of steps of all charts: 15 minutes with a value each 10 s.
const width = 89

// chart draws the past of a reading. A point of its lines is one value: x is the number of
// intervals, and y the distance from the top in steps of the unit. So the script shows the
// value under the pointer without further data.
type chart struct {
	Top        int // height in steps
	Line, Area string
	Range      string // in words
	Unit       string
	Digits     int
}

// chartOf draws the values of a history, the newest at the right end. An unknown value is a
// gap. It returns nil with fewer than two values.
func chartOf(u unit, values []*float64, interval float64, limit *float64) *chart {
	least, most, n := math.Inf(1), math.Inf(-1), 0
	for _, v := range values {
		if v != nil {
			least, most, n = min(least, *v), max(most, *v), n+1
		}
	}
	if n < 2 || len(values) > width+1 {
		return nil
	}
	c := chart{Unit: u.Name, Digits: u.digits, Top: max(1, u.steps(most))}
	if limit != nil {
		c.Top = max(c.Top, u.steps(*limit))
	}
	minutes := "minute"
	if m := float64(len(values)) * interval / 60; m >= 1.5 {
		minutes = strconv.Itoa(int(math.Round(m))) + " minutes"
	}
	c.Range = u.text(least) + " to " + u.text(most) + " in the last " + minutes
	c.draw(u, values)
	return &c
}

// draw writes each run of known values as one line, and as one area below it.
func (c *chart) draw(u unit, values []*float64) {
	var line, area []byte
	first := width + 1 - len(values)
	for i := 0; i < len(values); i++ {
		if values[i] == nil {
			continue
		}
		x, y := first+i, c.Top-u.steps(max(0, *values[i]))
		start := len(line)
		line = append(point(line, 'M', x, y), "h0"...) // a single value is visible, too
		last := y
		for sign := byte('l'); i+1 < len(values) && values[i+1] != nil; sign = ' ' {
			i++
			y := c.Top - u.steps(max(0, *values[i]))
			line, last = point(line, sign, 1, y-last), y
		}
		area = append(append(area, line[start:]...), 'V')
		area = append(strconv.AppendInt(area, int64(c.Top), 10), 'H')
		area = append(strconv.AppendInt(area, int64(x), 10), 'z')
	}
	c.Line, c.Area = string(line), string(area)
}

// point appends "M12 34", or "l1-3": a minus separates numbers as well as a space.
func point(out []byte, sign byte, x, y int) []byte {
	out = strconv.AppendInt(append(out, sign), int64(x), 10)
	if y >= 0 {
		out = append(out, ' ')
	}
	return strconv.AppendInt(out, int64(y), 10)
}

// axis is the time axis of all charts.
type axis struct {
	Last  int64   // time of the right end, in seconds since 1970; 0 without a history
	Every float64 // seconds of a step
	Ticks []string
}

// axisOf returns the axis. All GPUs are recorded at the same times.
func axisOf(gpus []api.Status) (a axis) {
	for i := range gpus {
		if h := gpus[i].History; h != nil && !h.Last.IsZero() {
			a.Last, a.Every = h.Last.Unix(), cmp.Or(h.Interval, 10)
			break
		}
	}
	if a.Last == 0 {
		return a
	}
	const ticks = 4
	for i := range ticks {
		before := time.Duration(a.Every * float64(width*(ticks-1-i)) / (ticks - 1) * float64(time.Second))
		a.Ticks = append(a.Ticks, time.Unix(a.Last, 0).UTC().Add(-before).Round(time.Minute).Format("15:04"))
	}
	a.Ticks[ticks-1] += " UTC"
	return a
}

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
