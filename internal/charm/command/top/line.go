package top

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// line holds a line of the table. A GPU has a line for each user. A divided GPU also has a
// line for each partition in use.
type line struct {
	cells     [columns]term.Cell
	shares    [columns]*float64 // lengths of bars, 0 to 1
	longState string            // replaces the state in a wide column; "" without one
	title     string            // of a run, for a column without room for its id; "" without one
}

// share returns value divided by limit, nil if one is unknown.
func share(value, limit *float64) *float64 {
	if value == nil || limit == nil || *limit <= 0 {
		return nil
	}
	return new(*value / *limit)
}

// linesOf returns the lines of the GPUs of a report. Idle partitions are folded, unless idle is
// set.
func linesOf(r api.Report, idle bool) (out []line) {
	for _, partitions := range api.GroupByGPU(r.GPUs) {
		prefix := prefixOf(partitions[0], r)
		if partitions[0].Partitions > 1 {
			out = append(out, dividedLines(partitions, prefix, r, idle)...)
		} else {
			out = append(out, usersOf(gpuLine(partitions, prefix), &partitions[0], r)...)
		}
	}
	return out
}

// prefixOf returns the vendor before a GPU's index, "" if all GPUs are of one vendor.
func prefixOf(s api.Status, r api.Report) string {
	others := func(o api.Status) bool { return o.Vendor != s.Vendor }
	if s.Vendor == "" || !slices.ContainsFunc(r.GPUs, others) {
		return ""
	}
	return gpu.Vendor(s.Vendor).Label() + " " // each vendor has a GPU 0
}

// gpuLine returns the line with the values of a GPU, without a user.
func gpuLine(partitions []api.Status, prefix string) (l line) {
	s := &partitions[0]
	l.cells[gpuColumn].Text = prefix + indexes(partitions)
	l.cells[nameColumn].Text = s.Name
	l.cells[addressColumn].Text = s.PCI
	l.cells[temperatureColumn] = ofLimit(s.Temperature, s.TemperatureLimit, hotFrom, hottestFrom)
	if s.Suspended && s.Temperature == nil {
		l.cells[temperatureColumn].Text = "asleep"
	}
	l.cells[powerColumn] = ofLimit(s.Power, s.PowerCap, cappedFrom, never)
	l.shares[memoryColumn] = share(s.MemoryUsed, s.MemoryTotal)
	l.cells[memoryColumn] = term.Cell{Text: "-"}
	if s.MemoryUsed != nil {
		l.cells[memoryColumn].Text = gib(s.MemoryUsed, s.MemoryTotal)
		l.cells[memoryColumn].Colour = term.Green
	}
	if full := l.shares[memoryColumn]; full != nil {
		l.cells[memoryColumn].Colour = levelColour(*full, fullFrom, fullestFrom, term.Green)
	}
	load := s.Activity
	if s.Partitions > 1 {
		load = s.SocketActivity // of the whole GPU
	}
	l.setLoad(load)
	l.setState(partitions)
	return l
}

func (l *line) setLoad(load *float64) {
	l.cells[loadColumn], l.shares[loadColumn] = term.Cell{Text: "-"}, load
	if load != nil {
		l.cells[loadColumn] = term.Cell{Text: fmt.Sprintf("%.0f%%", *load*100), Colour: term.Green}
	}
}

// dividedLines returns the line of a divided GPU and the lines of its partitions.
func dividedLines(partitions []api.Status, prefix string, r api.Report, idle bool) []line {
	head := gpuLine(partitions, prefix)
	var parts []line
	used := 0
	for i := range partitions {
		s := &partitions[i]
		uses := len(api.UsesOf(*s, r.Time)) > 0
		if uses {
			used++
		}
		if !uses && !s.Excluded() && !idle {
			continue
		}
		var p line
		p.cells[gpuColumn].Text = prefix + fmt.Sprint(s.Index)
		p.cells[nameColumn].Text = fmt.Sprintf("- part %d", s.Partition)
		p.setLoad(s.Activity)
		p.setState(partitions[i : i+1])
		parts = append(parts, usersOf(p, s, r)...)
	}
	head.cells[userColumn].Text = fmt.Sprintf("%d of %d used", used, len(partitions))
	return append([]line{head}, parts...)
}

// usersOf returns a line for each user of a GPU or partition. The first has its values.
func usersOf(first line, s *api.Status, r api.Report) (out []line) {
	uses := api.UsesOf(*s, r.Time)
	if len(uses) == 0 {
		first.cells[userColumn].Text = api.Unused(*s)
		return []line{first}
	}
	for _, u := range uses {
		first.cells[userColumn].Text, first.cells[leaseColumn].Text = u.Name, u.Lease
		first.title = u.Title
		first.cells[usedColumn].Text, first.cells[enginesColumn].Text = u.Memory, u.Engines
		first.cells[unitsColumn].Text, first.cells[processesColumn].Text = u.Units, ""
		if u.Processes > 0 {
			first.cells[processesColumn].Text = fmt.Sprint(u.Processes)
		}
		out = append(out, first)
		first = line{}
	}
	return out
}

// setState shows the health of a GPU, or its service if tasks do not get it. A wide column
// shows both.
func (l *line) setState(gpus []api.Status) {
	state, excluded, service := api.StateOf(gpus[0]), 0, ""
	for i := range gpus {
		if gpus[i].Excluded() {
			if excluded++; service == "" {
				service = gpus[i].Service.State.String()
			}
		}
	}
	if excluded == 0 {
		l.cells[stateColumn] = term.Cell{Text: string(state), Colour: term.StateColour(state)}
		return
	}
	if excluded < len(gpus) {
		service = fmt.Sprintf("%d %s", excluded, service)
	}
	l.cells[stateColumn] = term.Cell{Text: service, Colour: term.Yellow}
	if state == health.Critical {
		l.cells[stateColumn].Colour = term.Red
	}
	l.longState = string(state) + ", " + service
}

// indexes returns the index of a GPU, or the range of its partitions.
func indexes(gpus []api.Status) string {
	first, last := gpus[0].Index, gpus[len(gpus)-1].Index
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// The shares of a limit from which a value is coloured. A GPU under load is often at its
// power cap, so power is never red.
const (
	hotFrom, hottestFrom  = .9, 1
	cappedFrom            = .98
	fullFrom, fullestFrom = .9, .98
	never                 = 1e9
)

func levelColour(share, warn, bad float64, normal string) string {
	switch {
	case share >= bad:
		return term.Red
	case share >= warn:
		return term.Yellow
	}
	return normal
}

// ofLimit formats "68/100", coloured by the share of the limit.
func ofLimit(value, limit *float64, warn, bad float64) term.Cell {
	if value == nil {
		return term.Cell{Text: "-"}
	}
	c := term.Cell{Text: fmt.Sprintf("%.0f", *value)}
	if s := share(value, limit); s != nil {
		c.Text += fmt.Sprintf("/%.0f", *limit)
		c.Colour = levelColour(*s, warn, bad, "")
	}
	return c
}

// gib formats "5.8/20", or "92/192" for large GPUs, in GiB.
func gib(used, total *float64) string {
	const unit = 1 << 30
	if total == nil {
		return fmt.Sprintf("%.1f", *used/unit)
	}
	if *total < 100*unit {
		return fmt.Sprintf("%.1f/%.0f", *used/unit, *total/unit)
	}
	return fmt.Sprintf("%.0f/%.0f", *used/unit, *total/unit)
}

// model returns the part of a GPU's name from the first word with a digit. Capitals before
// that word belong to it: "AMD Instinct MI300X" is MI300X, "NVIDIA GeForce RTX 4090" is
// RTX 4090.
func model(name string) string {
	words := strings.Fields(name)
	for i, w := range words {
		if !strings.ContainsFunc(w, unicode.IsDigit) {
			continue
		}
		if i > 1 && utf8.RuneCountInString(words[i-1]) <= 3 && strings.ToUpper(words[i-1]) == words[i-1] {
			i--
		}
		return strings.Join(words[i:], " ")
	}
	return name
}

// fitting returns the first words of text that fit, at least one.
func fitting(text string, width int) string {
	for utf8.RuneCountInString(text) > width {
		at := strings.LastIndexByte(text, ' ')
		if at < 0 {
			break
		}
		text = text[:at]
	}
	return text
}

// cut shortens text to width characters.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	return string([]rune(text)[:width-1]) + "…"
}
