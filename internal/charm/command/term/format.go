// Package term is how answers to people look: on a terminal, in columns and with
// colours, or as JSON. It knows nothing of what they say.
package term

import (
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"

	"concourse-ci-machine/internal/gpu/amd"
	"concourse-ci-machine/internal/gpu/health"
)

// Format is how an answer is written. Colour is for terminals only: it adds to
// the text and never carries a meaning of its own.
type Format struct{ JSON, Colour bool }

// Colours as SGR parameters (ECMA-48), those of the eight that every terminal
// has.
const (
	Bold   = "1"
	Red    = "1;31"
	Green  = "32"
	Yellow = "33"
	cyan   = "36"
)

// Paint is text in a colour, where colours are shown.
func (f Format) Paint(colour, text string) string {
	if !f.Colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Column is text in a column of so many characters, painted without the space
// that fills it.
func (f Format) Column(colour, text string, width int) string {
	return f.Paint(colour, text) + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// Cell is a place in a table.
type Cell struct{ Text, Colour string }

// maxCell is where a text is cut that would push all others off the screen.
const maxCell = 100

// Table is a line for each row, whose columns are as wide as what is in them.
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

// SeverityColour is the colour of an error's severity.
func SeverityColour(s amd.Severity) string {
	switch s {
	case amd.SeverityCritical:
		return Red
	case amd.SeverityWarning:
		return Yellow
	}
	return cyan
}

// StateColour is the colour of a GPU's state.
func StateColour(s health.State) string {
	switch s {
	case health.Healthy:
		return Green
	case health.Critical:
		return Red
	}
	return Yellow
}

// JSON writes v, indented, for programs and people alike.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Wrap breaks text between words into lines of at most width characters, where
// the words allow it.
func Wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
