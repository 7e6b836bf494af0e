package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
)

const (
	labelWidth = 13 // of the words before the values of a GPU
	detailBar  = 20
	detailText = 24
	leastPast  = 8 // points of a history that are worth a picture
)

// selectedBlock returns the GPU of the selected line, the first without one.
func (v *View) selectedBlock(r api.Report) block {
	blocks := v.blocksOf(r)
	lines := v.sorted(r)
	key := cmp.Or(v.selected, lines[0].key)
	for _, b := range blocks {
		if slices.ContainsFunc(b.lines, func(l line) bool { return l.key == key }) {
			return b
		}
	}
	v.selected = ""
	return blocks[0]
}

// detailLines returns all values of one GPU.
func (v *View) detailLines(format term.Format, f Frame) (out []string) {
	b := v.selectedBlock(f.Report)
	s := &b.gpu[0]
	head := gpuLine(b, "")
	add := func(label, text, colour string) {
		rest := max(minWidth, f.Width-labelWidth)
		for _, part := range commandline.Wrap(text, rest) {
			out = append(out, cut(fmt.Sprintf("%-*s", labelWidth, label), f.Width)+
				format.Paint(colour, cut(part, f.Width-labelWidth)))
			label = ""
		}
	}
	add("GPU "+indexes(b.gpu), joined(", ", s.Name, s.GFX, s.PCI), term.Bold)
	identity := []string{s.UUID}
	if b.divided() {
		identity = []string{fmt.Sprintf("%d partitions", s.Partitions), joined("/", s.ComputePartition, s.MemoryPartition)}
	}
	if s.VBIOS != "" {
		identity = append(identity, "VBIOS "+s.VBIOS)
	}
	if s.Driver != "" {
		identity = append(identity, "driver "+s.Driver)
	}
	add("", joined(", ", identity...), "")
	state := string(api.StateOf(*s))
	if s.Health.Score != nil {
		state += fmt.Sprintf(", %.0f of 100", *s.Health.Score)
	}
	see := gpuhealth.SeeCodes(format.Commands, s.Health.Codes)
	add("State", state+": "+cmp.Or(s.Health.Reason, "nothing is known of it")+see,
		head.cells[stateColumn].Colour)
	if warnings := gpuhealth.NotInService(b.gpu); len(warnings) > 0 {
		for i, w := range warnings {
			add([]string{"Service", ""}[min(i, 1)], w, term.Yellow)
		}
	}
	out = append(out, "")
	history := cmp.Or(s.History, &api.History{})
	load := history.Activity
	if b.divided() {
		load = nil // of the first partition
	}
	sensor := ""
	if s.Sensor != "" {
		sensor = " (" + s.Sensor + ")"
	}
	for _, m := range []struct {
		label, unit string
		column      int
		share       *float64
		past        []*float64
	}{
		{"Temperature", " °C" + sensor, temperatureColumn, share(s.Temperature, s.TemperatureLimit), history.Temperature},
		{"Power", " W", powerColumn, share(s.Power, s.PowerCap), history.Power},
		{"VRAM", " GiB", memoryColumn, head.shares[memoryColumn], history.Memory},
		{"Load", "", loadColumn, head.shares[loadColumn], load},
	} {
		c := head.cells[m.column]
		text := c.Text
		if text != "-" && text != "asleep" {
			text = strings.Replace(text, "/", " of ", 1) + m.unit
		}
		width := min(detailBar, max(0, f.Width-labelWidth-gap-detailText))
		line := fmt.Sprintf("%-*s%s  ", labelWidth, m.label, format.Paint(c.Colour, barOf(m.share, width)))
		line += fmt.Sprintf("%-*s", detailText, cut(text, f.Width-labelWidth-width-gap))
		if room := f.Width - labelWidth - width - gap - detailText - 1; room >= leastPast {
			line += " " + pastOf(m.past, room)
		}
		out = append(out, strings.TrimRight(line, " "))
	}
	if n := float64(max(len(history.Temperature), len(history.Activity))) * history.Interval; n > 0 {
		out = append(out, cut(fmt.Sprintf("%-*slast %.0f minutes, newest right, each from its least to its most",
			labelWidth, "", math.Ceil(n/60)), f.Width))
	}
	out = append(out, "")
	for i := range b.gpu {
		p := &b.gpu[i]
		label, load := "Used by", ""
		if b.divided() {
			label = fmt.Sprintf("%-5d", p.Index)
			if p.Activity != nil {
				label += fmt.Sprintf(" %3.0f %%", *p.Activity*100)
			}
		} else if i > 0 {
			label = ""
		}
		uses := api.UsesOf(*p, f.Report.Time)
		if len(uses) == 0 {
			add(label, load+api.Unused(*p), "")
		}
		for _, u := range uses {
			add(label, u.Name+": "+u.Text(), "")
			label = ""
		}
		if p.Lease != nil && p.Lease.Doubt != "" {
			add("", "the lease is in doubt: "+p.Lease.Doubt, term.Yellow)
		}
	}
	return out
}

// joined joins the parts that are not empty.
func joined(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), separator)
}

// pastOf draws the last values of a history, from their least to their most. Equal values
// are a low line, and an unknown value is a gap.
func pastOf(values []*float64, width int) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	values = values[max(0, len(values)-width):]
	least, most := math.Inf(1), math.Inf(-1)
	for _, p := range values {
		if p != nil {
			least, most = min(least, *p), max(most, *p)
		}
	}
	var b strings.Builder
	for _, p := range values {
		switch {
		case p == nil:
			b.WriteByte(' ')
		case most <= least:
			b.WriteRune(levels[0])
		default:
			b.WriteRune(levels[int((*p-least)/(most-least)*float64(len(levels)-1))])
		}
	}
	return b.String()
}

// helpLines explains the keys and the columns.
var helpLines = []string{
	"q, Ctrl-C    quit",
	"s            sort: GPU, load, temperature, power, VRAM, state, user",
	"f, space     freeze the values; again: go on",
	"↑ ↓, k j     select a GPU; PgUp PgDn g G: further",
	"Enter        show only the selected GPU; ← →: another one; Esc: back",
	"a            show all partitions, or only those in use",
	"h, ?         this help; again: back",
	"Ctrl-Z       suspend; fg: go on",
	"",
	"TEMP         of the sensor nearest its limit; yellow from 90 % of it, red at it",
	"POWER        of the power cap; yellow at the cap",
	"VRAM         yellow from 90 %, red from 98 %",
	"STATE        health, or quarantined or on probation: no new task gets the GPU",
	"USED BY      container; free: a task can lease it; no container: the machine",
	"0-7, part 3  a divided GPU, and a partition of it",
}
