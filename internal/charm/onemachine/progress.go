package onemachine

import (
	"fmt"
	"io"
)

// columns is the width of a line that the next step replaces.
const columns = 79

// Progress shows the steps of a command. On a terminal a step replaces the previous one.
type Progress struct {
	W        io.Writer
	Terminal bool
}

const clearLine = "\r\x1b[K"

// Step shows a step.
func (p Progress) Step(text string) {
	if !p.Terminal {
		fmt.Fprintln(p.W, text)
		return
	}
	if r := []rune(text); len(r) > columns {
		text = string(r[:columns-3]) + "..."
	}
	fmt.Fprint(p.W, clearLine+text)
}

// Note shows a line that stays, such as a warning.
func (p Progress) Note(text string) {
	p.End()
	fmt.Fprintln(p.W, text)
}

// End removes the last step.
func (p Progress) End() {
	if p.Terminal {
		fmt.Fprint(p.W, clearLine)
	}
}
