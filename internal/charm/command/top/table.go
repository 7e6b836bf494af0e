package top

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
)

// The columns from left to right.
const (
	gpuColumn = iota
	nameColumn
	temperatureColumn
	powerColumn
	memoryColumn
	loadColumn
	stateColumn
	userColumn
	leaseColumn
	usedColumn
	enginesColumn
	unitsColumn
	processesColumn
	addressColumn
	columns
)

var titles = [columns]string{"GPU", "NAME", "TEMP °C", "POWER W", "VRAM GiB", "LOAD", "STATE", "USED BY", "LEASED",
	"MEMORY", "ENGINES", "CU", "PROC", "PCI"}

// rightAligned marks the columns of numbers.
var rightAligned = [columns]bool{gpuColumn: true, temperatureColumn: true, powerColumn: true, unitsColumn: true,
	processesColumn: true}

// hasBar marks the columns with a bar before the text.
var hasBar = [columns]bool{memoryColumn: true, loadColumn: true}

const (
	gap       = 2  // between columns
	shortBar  = 4  // characters
	maxUser   = 40 // a handle has 36
	maxUsed   = 60 // of memory and engines
	leastUser = 10
	widestBar = 12
)

// modelWidths lists the widths of a name that is cut to its model, the best first.
var modelWidths = []int{10, 8, 6}

// layout holds the widths of the columns on one screen, 0 for columns that do not fit.
type layout struct {
	widths [columns]int
	texts  [columns]int // widths of the texts after a bar
	room   int
}

// grow widens a column to width, if there is room for all of it.
func (l *layout) grow(column, width int) {
	more := width - l.widths[column]
	if l.widths[column] == 0 {
		more += gap
	}
	if width > l.widths[column] && more <= l.room {
		l.widths[column] = width
		l.room -= more
	}
}

// layoutOf chooses the columns for a screen by their importance. The natural widths are
// those of the texts.
func layoutOf(width int, natural, short [columns]int) *layout {
	l := &layout{room: width + gap, texts: natural}
	bar := func(column, bar int) {
		l.grow(column, max(utf8.RuneCountInString(titles[column]), bar+1+natural[column]))
	}
	bars := func(length int) {
		if 2*(length-shortBar) <= l.room {
			bar(memoryColumn, length)
			bar(loadColumn, length)
		}
	}
	for _, c := range []int{gpuColumn, stateColumn} {
		l.grow(c, short[c])
	}
	bar(loadColumn, shortBar)
	l.grow(userColumn, min(natural[userColumn], leastUser))
	for _, c := range []int{temperatureColumn, powerColumn} {
		l.grow(c, natural[c])
	}
	bar(memoryColumn, shortBar)
	for _, width := range modelWidths {
		if l.widths[nameColumn] == 0 {
			l.grow(nameColumn, min(short[nameColumn], width))
		}
	}
	if full := min(natural[userColumn], maxUser); l.widths[userColumn] > 0 {
		l.grow(userColumn, min(full, l.widths[userColumn]+max(0, l.room)))
	}
	l.grow(leaseColumn, natural[leaseColumn])
	bars(2 * shortBar)
	l.grow(stateColumn, natural[stateColumn])
	for _, c := range []int{usedColumn, processesColumn, nameColumn, enginesColumn, unitsColumn, addressColumn} {
		l.grow(c, min(natural[c], maxUsed))
	}
	bars(widestBar)
	return l
}

// table returns the title and the lines as text of at most width characters. The widest
// texts since the last change of the width decide the columns, so that they do not jump.
func (v *View) table(f term.Format, lines []line, width int) []string {
	if v.width != width {
		*v = View{width: width}
	}
	for i, t := range titles {
		if !hasBar[i] && (i <= userColumn || hasText(lines, i)) {
			v.natural[i], v.short[i] = max(v.natural[i], utf8.RuneCountInString(t)), max(v.short[i], utf8.RuneCountInString(t))
		}
	}
	for _, l := range lines {
		for i, c := range l.cells {
			short, long := c.Text, c.Text
			switch i {
			case nameColumn:
				short = model(c.Text)
			case stateColumn:
				long = cmp.Or(l.longState, long)
			}
			v.natural[i] = max(v.natural[i], utf8.RuneCountInString(long))
			v.short[i] = max(v.short[i], utf8.RuneCountInString(short))
		}
	}
	l := layoutOf(width, v.natural, v.short)
	head := line{}
	for i, t := range titles {
		head.cells[i] = term.Cell{Text: t, Colour: term.Bold}
	}
	out := []string{l.text(f, head, true)}
	for _, one := range lines {
		out = append(out, l.text(f, one, false))
	}
	return out
}

// hasText reports whether a column has a text.
func hasText(lines []line, column int) bool {
	return slices.ContainsFunc(lines, func(l line) bool { return l.cells[column].Text != "" })
}

// text returns a line of the table.
func (l *layout) text(f term.Format, one line, title bool) string {
	var b strings.Builder
	pad := 0
	for i, width := range l.widths {
		if width == 0 {
			continue
		}
		cell := one.cells[i]
		text := cell.Text
		if i == stateColumn && one.longState != "" && utf8.RuneCountInString(one.longState) <= width {
			text = one.longState
		}
		if i == userColumn && one.title != "" && utf8.RuneCountInString(text) > width {
			text = one.title
		}
		if i == nameColumn && utf8.RuneCountInString(text) > width {
			text = fitting(model(text), width)
		}
		if hasBar[i] && !title && text != "" {
			space := strings.Repeat(" ", 1+l.texts[i]-utf8.RuneCountInString(text))
			text = barOf(one.shares[i], width-1-l.texts[i]) + space + text
		}
		text = cut(text, width)
		empty := width - utf8.RuneCountInString(text)
		before := 0
		if rightAligned[i] {
			before = empty
		}
		b.WriteString(strings.Repeat(" ", pad+before) + f.Paint(cell.Colour, text))
		pad = gap + empty - before
	}
	return strings.TrimRight(b.String(), " ")
}

// barOf draws a share of 0 to 1. An unknown share is blank.
func barOf(share *float64, width int) string {
	if share == nil {
		return strings.Repeat(" ", width)
	}
	filled := int(math.Round(min(1, max(0, *share)) * float64(width)))
	return strings.Repeat("█", filled) + strings.Repeat("░", width-filled)
}
