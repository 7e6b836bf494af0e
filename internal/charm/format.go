package charm

import (
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"

	"concourse-ci-machine/internal/exporter/health"
	"concourse-ci-machine/internal/rocm"
)

// Format is how an answer is written. Colour is for terminals only: it adds to
// the text and never carries a meaning of its own.
type Format struct{ JSON, Colour bool }

// Colours as SGR parameters (ECMA-48), those of the eight that every terminal
// has.
const (
	bold   = "1"
	red    = "1;31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (f Format) paint(colour, text string) string {
	if !f.Colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// column is text in a column of so many characters, painted without the space
// that fills it.
func (f Format) column(colour, text string, width int) string {
	return f.paint(colour, text) + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

func severityColour(s rocm.Severity) string {
	switch s {
	case rocm.SeverityCritical:
		return red
	case rocm.SeverityWarning:
		return yellow
	}
	return cyan
}

func stateColour(s health.State) string {
	switch s {
	case health.Healthy:
		return green
	case health.Critical:
		return red
	}
	return yellow
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// wrap breaks text between words into lines of at most width characters, where
// the words allow it.
func wrap(text string, width int) (lines []string) {
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
