// Package top shows the GPUs of an exporter on a terminal, and follows the keys of a
// person. It never reads a GPU, and changes nothing but the screen.
package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// View holds the choices of the person.
type View struct {
	AllPartitions bool // also those that are not in use

	order    order
	frozen   bool
	help     bool
	detail   bool   // of the selected GPU, without the others
	selected string // key of a line; "" for the first
	offset   int    // of the first shown line

	keys                    []string // of the lines that can be selected, as last shown
	page                    int      // number of lines that fit
	tableWidth              int
	natural, short          [columns]int
	detailOffset, detailMax int
}

// Frame holds the data of one picture.
type Frame struct {
	Report        api.Report
	Age           time.Duration // of the report
	Late          string        // why it is not live; "" if it is
	Width, Height int
	NoKeys        bool // no keys can be read
}

// order sorts the GPUs.
type order int

const (
	byIndex order = iota
	byLoad
	byTemperature
	byPower
	byMemory
	byState
	byUser
	orders
)

var orderNames = [orders]string{"GPU", "load", "temperature", "power", "VRAM", "state", "user"}

// Lines returns the picture: at most f.Height lines of at most f.Width characters.
func (v *View) Lines(format term.Format, f Frame) []string {
	f.Width, f.Height = max(f.Width, minWidth), max(f.Height, minHeight)
	head := v.head(format, f)
	head = head[:min(len(head), f.Height-3)] // the title of the table, a line and the keys remain
	body := f.Height - len(head) - 1
	var lines []string
	position := ""
	switch {
	case v.help:
		lines = cutLines(helpLines, f.Width)
	case v.detail:
		lines = v.detailLines(format, f)
		v.detailMax = max(0, len(lines)-body)
		v.detailOffset = min(v.detailOffset, v.detailMax)
		lines = lines[v.detailOffset:]
	default:
		lines, position = v.tableLines(format, f, body)
	}
	lines = lines[:min(len(lines), body)]
	for len(lines) < body {
		lines = append(lines, "")
	}
	return slices.Concat(head, lines, []string{v.footer(format, f, position)})
}

// A smaller screen shows a part of the picture.
const minWidth, minHeight = 20, 6

// maxWarnings bounds the lines above the table. A low screen has fewer. The view of one GPU
// has its reasons.
const maxWarnings = 3

// title returns the line with the host and the time, and the summary.
func (v *View) title(format term.Format, f Frame) []string {
	clock, colour := f.Report.Time.Format("15:04:05 UTC"), ""
	switch {
	case f.Late != "":
		clock, colour = "NOT LIVE: "+units.Age(f.Age)+" old", term.Red
	case v.frozen:
		clock, colour = "FROZEN: "+units.Age(f.Age)+" old", term.Yellow
	}
	title := cut(api.Heading(f.Report), f.Width-utf8.RuneCountInString(clock)-2)
	space := max(1, f.Width-utf8.RuneCountInString(title)-utf8.RuneCountInString(clock))
	return []string{
		format.Paint(term.Bold, title) + strings.Repeat(" ", space) + format.Paint(colour, cut(clock, f.Width)),
		cut(api.Summary(f.Report), f.Width),
	}
}

// head returns the lines above the table.
func (v *View) head(format term.Format, f Frame) []string {
	head := v.title(format, f)
	if f.Late != "" {
		head = append(head, format.Paint(term.Red, cut(f.Late+"; the values are of "+
			f.Report.Time.Format("15:04:05 UTC"), f.Width)))
	}
	if v.help || v.detail {
		return append(head, "")
	}
	warnings := warningsOf(format, f.Report, f.Width)
	most := min(maxWarnings, (f.Height-minHeight)/minHeight)
	for i, w := range warnings[:min(len(warnings), most)] {
		if more := len(warnings) - i; i == most-1 && more > 1 {
			w = fmt.Sprintf("%d more warnings: select a GPU and press Enter", more)
		}
		head = append(head, format.Paint(term.Yellow, cut(w, f.Width)))
	}
	return append(head, "")
}

// warningsOf returns the reasons for the GPUs that are critical, then for those that no new
// task gets. Partitions of a GPU share a line. A reason is cut before its command.
func warningsOf(format term.Format, r api.Report, width int) (critical []string) {
	var excluded []string
	for _, gpus := range api.GroupByGPU(r.GPUs) {
		s := gpus[0]
		if s.Health.State == health.Critical {
			see := gpuhealth.SeeCodes(format.Commands, s.Health.Codes)
			reason := fmt.Sprintf("GPU %s is critical: %s", indexes(gpus), s.Health.Reason)
			critical = append(critical, cut(reason, max(minWidth, width-len(see)))+see)
		}
		out := slices.DeleteFunc(slices.Clone(gpus), func(s api.Status) bool { return !s.Excluded() })
		if len(out) == 0 {
			continue
		}
		which := indexes(gpus)
		if n := len(out); n < len(gpus) {
			which = fmt.Sprintf("%s: partition %d", which, out[0].Partition)
			if n > 1 {
				which += fmt.Sprintf(" and %d more", n-1)
			}
		}
		excluded = append(excluded, fmt.Sprintf("GPU %s has been %s %s", which, out[0].Service.State, out[0].Service.Text()))
	}
	return append(critical, excluded...)
}

// tableLines returns the table, scrolled to the selected line, and its position.
func (v *View) tableLines(format term.Format, f Frame, body int) (out []string, position string) {
	lines := v.sorted(f.Report)
	v.keys = v.keys[:0]
	chosen := 0
	for i, l := range lines {
		if l.key == "" {
			continue
		}
		v.keys = append(v.keys, l.key)
		if l.key == v.selected {
			chosen = i
		}
	}
	if v.selected != "" && lines[chosen].key != v.selected {
		v.selected = "" // removed
	}
	table := v.table(format, lines, f.Width-len(cursor))
	room := max(1, body-1)
	v.page = room
	v.offset = max(0, min(v.offset, chosen, len(lines)-room))
	for last := lastOf(lines, chosen); v.offset+room <= last && v.offset < chosen; {
		v.offset++
	}
	end := min(len(lines), v.offset+room)
	out = append(out, strings.Repeat(" ", len(cursor))+table[0])
	for i := v.offset; i < end; i++ {
		mark := strings.Repeat(" ", len(cursor))
		if i == chosen && !f.NoKeys {
			mark = format.Paint(term.Bold, cursor)
		}
		out = append(out, strings.TrimRight(mark+table[1+i], " "))
	}
	if len(lines) > room {
		position = fmt.Sprintf("%d-%d of %d", v.offset+1, end, len(lines))
	}
	return out, position
}

// cursor marks the selected line.
const cursor = ">"

// lastOf returns the last line of the users of line i.
func lastOf(lines []line, i int) int {
	for i+1 < len(lines) && lines[i+1].key == "" {
		i++
	}
	return i
}

// sorted returns the lines in the chosen order. Lines of one GPU stay together.
func (v *View) sorted(r api.Report) (out []line) {
	blocks := v.blocksOf(r)
	slices.SortStableFunc(blocks, func(a, b block) int {
		first := func(x *float64) float64 {
			if x == nil {
				return math.Inf(-1)
			}
			return *x
		}
		most := func(x, y *float64) int { return cmp.Compare(first(y), first(x)) }
		s, t := &a.gpu[0], &b.gpu[0]
		switch v.order {
		case byLoad:
			return most(a.load(), b.load())
		case byTemperature:
			return cmp.Or(most(share(s.Temperature, s.TemperatureLimit), share(t.Temperature, t.TemperatureLimit)),
				most(s.Temperature, t.Temperature))
		case byPower:
			return most(s.Power, t.Power)
		case byMemory:
			return most(share(s.MemoryUsed, s.MemoryTotal), share(t.MemoryUsed, t.MemoryTotal))
		case byState:
			return cmp.Compare(stateRank(a), stateRank(b))
		case byUser:
			return cmp.Compare(userRank(a, r.Time), userRank(b, r.Time))
		}
		return 0
	})
	for _, b := range blocks {
		out = append(out, b.lines...)
	}
	return out
}

// stateRank orders GPUs by urgency. An excluded GPU is before others of its state.
func stateRank(b block) int {
	rank := 2 * slices.Index(api.States, api.StateOf(b.gpu[0]))
	if slices.ContainsFunc(b.gpu, func(s api.Status) bool { return s.Excluded() }) {
		return rank
	}
	return rank + 1
}

// userRank orders GPUs by the name of the first user. GPUs without users are last.
func userRank(b block, at time.Time) string {
	for i := range b.gpu {
		if uses := api.UsesOf(b.gpu[i], at); len(uses) > 0 {
			return uses[0].Name
		}
	}
	return "\U0010ffff" // sorts behind names
}

// footer shows the keys, and the position in a long table at the right edge.
func (v *View) footer(format term.Format, f Frame, position string) string {
	freeze, partitions := "freeze", ""
	if v.frozen {
		freeze = "go on"
	}
	if slices.ContainsFunc(f.Report.GPUs, func(s api.Status) bool { return s.Partitions > 1 }) {
		partitions = "  a all parts"
	}
	text := "q quit  s sort: " + orderNames[v.order] + "  f " + freeze + "  ↑↓ Enter one GPU" + partitions +
		"  h help"
	switch {
	case f.NoKeys:
		text = "Ctrl-C quits"
	case v.help:
		text = "q quit  h back"
	case v.detail:
		text = "q quit  f " + freeze + "  ←→ other GPU  ↑↓ scroll  Esc back  h help"
	}
	text = cut(text, f.Width-len(position)-gap)
	space := max(0, f.Width-utf8.RuneCountInString(text)-len(position))
	return strings.TrimRight(format.Paint(term.Bold, text)+strings.Repeat(" ", space)+position, " ")
}

func cutLines(lines []string, width int) (out []string) {
	for _, l := range lines {
		out = append(out, cut(l, width))
	}
	return out
}

// Table returns all lines of the table without keys, for a screen of width characters that
// is shown once.
func Table(format term.Format, r api.Report, width int) []string {
	v := View{AllPartitions: true}
	f := Frame{Report: r, Width: max(width, minWidth)}
	var warnings []string
	for _, w := range warningsOf(format, r, math.MaxInt) {
		warnings = append(warnings, commandline.Wrap(w, f.Width)...)
	}
	return slices.Concat(v.title(format, f), warnings, v.table(format, v.sorted(r), f.Width))
}
