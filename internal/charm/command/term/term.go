// Package term formats answers to people: in columns and with colours on a terminal, or as
// JSON. The content of the answers comes from other packages.
package term

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// Format selects how an answer is written. Colour is only for terminals. It decorates the
// text and never carries a separate meaning.
type Format struct {
	Commands     wellknown.Commands // that the text names
	JSON, Colour bool
}

// Colours as SGR parameters (ECMA-48), from the eight that every terminal has.
const (
	Bold   = "1"
	Red    = "1;31"
	Green  = "32"
	Yellow = "33"
	cyan   = "36"
)

// Paint returns text in a colour, if colours are enabled.
func (f Format) Paint(colour, text string) string {
	if !f.Colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Column pads text to width characters. The padding is not coloured.
func (f Format) Column(colour, text string, width int) string {
	return f.Paint(colour, text) + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// Cell holds the text and the colour of a table's cell.
type Cell struct{ Text, Colour string }

// maxCell bounds a text, which would otherwise push the other columns off the screen.
const maxCell = 100

// Table returns a line for each row. Each column is as wide as its widest text.
func (f Format) Table(rows [][]Cell) (lines []string) {
	var widths []int
	for _, row := range rows {
		for i := range row {
			if runes := []rune(row[i].Text); len(runes) > maxCell {
				row[i].Text = string(runes[:maxCell-1]) + "…"
			}
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].Text))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, c := range row {
			line.WriteString(f.Column(c.Colour, c.Text, widths[i]+2))
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}

// SeverityColour returns the colour of an error's severity.
func SeverityColour(s amd.Severity) string {
	switch s {
	case amd.SeverityCritical:
		return Red
	case amd.SeverityWarning:
		return Yellow
	}
	return cyan
}

// StateColour returns the colour of a GPU's state.
func StateColour(s health.State) string {
	switch s {
	case health.Healthy:
		return Green
	case health.Critical:
		return Red
	}
	return Yellow
}

// JSON writes v indented, for programs and people.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Terminal returns w if it is a terminal with cursor movement, and nil otherwise. The
// output of a hook or an action is not a terminal.
func Terminal(w io.Writer, env func(string) string) *os.File {
	f, ok := w.(*os.File)
	if !ok || env("TERM") == "dumb" {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return f
}

// Size returns the columns and rows of a terminal, or 0 and 0 if they are unknown.
func Size(terminal *os.File) (columns, rows int) {
	size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}
