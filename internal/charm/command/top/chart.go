package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
)

const (
	chartPoints = 90 // of a full history, 15 minutes
	// twoPairs is the number of rows of a GPU from which power and temperature have charts, too.
	twoPairs = 12
)

// levels holds the eighths of a character, from empty to full.
var levels = []rune(" ▁▂▃▄▅▆▇█")

// chart holds the values of one reading in the last 15 minutes.
type chart struct {
	title  string
	values []*float64
	limit  *float64
}

// chartsOf returns the charts of a GPU, the most important first.
func chartsOf(gpus []api.Status) (out []chart) {
	s, h := &gpus[0], gpus[0].History
	text := func(value, limit *float64) string { return ofLimit(value, limit, never, never).Text }
	if s.Partitions <= 1 { // otherwise the load is that of the first partition
		load := "-"
		if s.Activity != nil {
			load = fmt.Sprintf("%.0f%%", *s.Activity*100)
		}
		out = append(out, chart{"load " + load, h.Activity, new(1.)})
	}
	memory := "-"
	if s.MemoryUsed != nil {
		memory = gib(s.MemoryUsed, s.MemoryTotal)
	}
	out = append(out, chart{"VRAM " + memory + " GiB", h.Memory, s.MemoryTotal},
		chart{"power " + text(s.Power, s.PowerCap) + " W", h.Power, s.PowerCap},
		chart{text(s.Temperature, s.TemperatureLimit) + " °C", h.Temperature, s.TemperatureLimit})
	out[0].title = "GPU " + indexes(gpus) + " in the last 15 min: " + out[0].title
	return out
}

// chartLines fills height rows with charts of the GPUs, two beside each other. It returns
// nothing if a GPU would have less than two rows.
func chartLines(format term.Format, r api.Report, width, height int) (lines []string) {
	drawn := slices.DeleteFunc(api.GroupByGPU(r.GPUs), func(gpus []api.Status) bool { return gpus[0].History == nil })
	if len(drawn) == 0 || (height-1)/len(drawn) < 2 {
		return nil
	}
	rows, pairs := (height-1)/len(drawn), 1
	if rows >= twoPairs {
		pairs = 2
	}
	half := (width - gap) / 2
	lines = append(lines, "")
	for _, gpus := range drawn {
		charts := chartsOf(gpus)
		for pair := range pairs {
			left, right := charts[2*pair].draw(half, rows/pairs), make([]string, rows/pairs)
			if 2*pair+1 < len(charts) {
				right = charts[2*pair+1].draw(half, rows/pairs)
			}
			for i := range left {
				colour := []string{term.Bold, term.Green}[min(i, 1)] // the title is the first
				line := format.Column(colour, left[i], half+gap)
				if right[i] == "" {
					line = format.Paint(colour, left[i])
				}
				lines = append(lines, line+format.Paint(colour, right[i]))
			}
		}
	}
	return lines
}

// draw returns rows lines of at most width characters: the title and the bars, the newest on
// the right.
func (c chart) draw(width, rows int) []string {
	out := []string{cut(c.title, width)}
	most := 0.
	for _, v := range c.values {
		if v != nil {
			most = max(most, *v)
		}
	}
	if c.limit != nil && *c.limit > 0 {
		most = *c.limit
	}
	heights := make([]int, width) // in eighths of a row
	for i := range heights {
		if v := c.at(i, width); v != nil {
			full := float64(8 * (rows - 1))
			heights[i] = int(min(max(*v/max(most, 1e-9)*full, 1), full)) // a known value is seen
		}
	}
	for row := rows - 2; row >= 0; row-- {
		bars := make([]rune, width)
		for i, h := range heights {
			bars[i] = levels[min(max(h-8*row, 0), 8)]
		}
		out = append(out, strings.TrimRight(string(bars), " "))
	}
	return out
}

// at returns the mean of the values at a column of width, nil if they are unknown.
func (c chart) at(column, width int) *float64 {
	missing := max(0, chartPoints-len(c.values)) // the program is younger
	n := missing + len(c.values)
	sum, known := 0., 0
	for i := column * n / width; i < max((column+1)*n/width, column*n/width+1); i++ {
		if i >= missing && c.values[i-missing] != nil {
			sum, known = sum+*c.values[i-missing], known+1
		}
	}
	if known == 0 {
		return nil
	}
	return new(sum / float64(known))
}
