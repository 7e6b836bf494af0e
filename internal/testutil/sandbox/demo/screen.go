package demo

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
)

// columns is the maximum width of a line, also on a wider terminal, so that the output is
// readable in a log.
const columns = 80

// mark names the result of a step or scene.
type mark string

const (
	passed    mark = "ok"
	failed    mark = "FAILED"
	tolerated mark = "failed" // of a step that no other needs
	notRun    mark = "not run"
	leftOut   mark = "left out"
)

func (m mark) colour() string {
	switch m {
	case passed:
		return term.Green
	case failed:
		return term.Red
	}
	return term.Yellow
}

// screen prints text in two columns. The left column describes the right one.
type screen struct {
	out    io.Writer
	format term.Format
	width  int
	// terminal allows lines that change.
	terminal bool
	// broken is called for the first line that could not be written. Later lines are
	// dropped.
	broken func(error)
	err    error
}

// newScreen uses colours on a terminal, unless NO_COLOR is set (no-color.org).
func newScreen(out io.Writer, env func(string) string, broken func(error)) *screen {
	s := &screen{out: out, width: columns, broken: broken}
	if t := term.Terminal(out, env); t != nil {
		s.terminal, s.format.Colour = true, env("NO_COLOR") == ""
		if has, _ := term.Size(t); has > 2*leftWidth {
			s.width = min(columns, has)
		}
	}
	return s
}

func (s *screen) line(text string) {
	if s.err != nil {
		return
	}
	if _, s.err = fmt.Fprintln(s.out, text); s.err != nil {
		s.broken(s.err)
	}
}

// title starts a part of the demo.
func (s *screen) title(text string) {
	s.line("")
	fill := strings.Repeat("=", max(0, s.width-len("==  ")-utf8.RuneCountInString(text)))
	s.line(s.format.Paint(term.Bold, "== "+text) + " " + fill)
}

// prose prints text over the whole width.
func (s *screen) prose(text string) {
	for _, l := range commandline.Wrap(text, s.width) {
		s.line(l)
	}
}

// leftWidth is the width of the left column, with its margins.
const leftWidth = 12

// item prints text with a word in the left column.
func (s *screen) item(what, format string, args ...any) {
	s.row(what, "", fmt.Sprintf(format, args...))
}

// mark prints text with a result.
func (s *screen) mark(m mark, format string, args ...any) {
	s.row(string(m), m.colour(), fmt.Sprintf(format, args...))
}

func (s *screen) row(what, colour, text string) {
	for i, l := range commandline.Wrap(text, s.width-leftWidth) {
		if i > 0 {
			what, colour = "", ""
		}
		s.line("  " + s.format.Column(colour, what, leftWidth-2) + l)
	}
}
