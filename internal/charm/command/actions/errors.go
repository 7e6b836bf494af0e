package actions

import (
	"fmt"
	"io"
	"strings"

	"concourse-ci-machine/internal/base/commandline"
	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/gpu/amd"
)

// textWidth is the width of running text for a terminal.
const textWidth = 78

// ExplainError writes the explanation of the error with the number code.
func (c *Actions) ExplainError(w io.Writer, code string, f term.Format) error {
	e, err := amd.ParseErrorCode(code)
	if err != nil {
		return err
	}
	if f.JSON {
		return term.JSON(w, e)
	}
	var b strings.Builder
	list := func(title string, lines []string, mark func(i int) string) {
		fmt.Fprintf(&b, "\n%s\n", f.Paint(term.Bold, title))
		for i, text := range lines {
			for j, line := range commandline.Wrap(text, textWidth-5) {
				m := "    "
				if j == 0 {
					m = mark(i)
				}
				fmt.Fprintf(&b, " %s%s\n", m, line)
			}
		}
	}
	dash := func(int) string { return " -  " }
	number := func(i int) string { return fmt.Sprintf("%2d. ", i+1)[:4] }
	fmt.Fprintf(&b, "%s  %s\n\n", f.Paint(term.Bold, fmt.Sprintf("%d %s", e.Code, e.Name)), f.Paint(
		term.SeverityColour(e.Severity), string(e.Severity),
	))
	for _, line := range commandline.Wrap(e.Description, textWidth) {
		fmt.Fprintln(&b, line)
	}
	list("Causes", e.Causes, dash)
	list("What to do", e.Actions, number)
	fmt.Fprintf(&b, "\n%s\n", f.Paint(term.Bold, "How it shows"))
	for _, s := range e.Detected {
		for j, line := range commandline.Wrap(s.What, textWidth-10) {
			source := ""
			if j == 0 {
				source = string(s.Source)
			}
			fmt.Fprintf(&b, "  %-6s  %s\n", source, line)
		}
	}
	fmt.Fprintf(&b, "\nMore: %s\n", e.Link)
	_, err = io.WriteString(w, b.String())
	return err
}

// ListErrors writes the table of errors.
func (c *Actions) ListErrors(w io.Writer, f term.Format) error {
	if f.JSON {
		return term.JSON(w, struct {
			Errors []amd.ErrorCode `json:"errors"`
		}{amd.ErrorCodes()})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", f.Paint(term.Bold, "CODE  SEVERITY  NAME"))
	for _, e := range amd.ErrorCodes() {
		fmt.Fprintf(
			&b, "%4d  %s  %s\n", e.Code,
			f.Column(term.SeverityColour(e.Severity), string(e.Severity), 8), e.Name,
		)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
