package actions

import (
	"fmt"
	"io"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
)

const (
	textWidth         = 78                     // of running text on a terminal
	descriptionColumn = 4 + 2 + 25 + 2 + 8 + 2 // in the table of errors
)

// ExplainError writes the explanation of each error with a number of codes, if all are
// known.
func (c *Actions) ExplainError(w io.Writer, f term.Format, codes ...string) error {
	var all []amd.ErrorCode
	for _, code := range codes {
		e, err := amd.ParseErrorCode(code, c.Commands().Name())
		if err != nil {
			return err
		}
		all = append(all, e)
	}
	for i, e := range all {
		if i > 0 && !f.JSON {
			fmt.Fprintln(w)
		}
		if err := explain(w, e, f); err != nil {
			return err
		}
	}
	return nil
}

func explain(w io.Writer, e amd.ErrorCode, f term.Format) error {
	if f.JSON {
		return term.JSON(w, e)
	}
	var b strings.Builder
	list := func(title string, lines []string) {
		fmt.Fprintf(&b, "\n%s\n", f.Paint(term.Bold, title))
		for i, text := range lines {
			mark := fmt.Sprintf("%d. ", i+1)
			fmt.Fprintf(&b, "  %s%s\n", mark, strings.Join(commandline.Wrap(text, textWidth-5), "\n     "))
		}
	}
	title := fmt.Sprintf("ROCm Error %d: %s", e.Code, e.Name)
	fmt.Fprintf(&b, "%s\n%s\n", f.Paint(term.Bold, title), strings.Repeat("━", len(title)))
	fmt.Fprintf(&b, "Severity: %s\n", f.Paint(term.SeverityColour(e.Severity), string(e.Severity)))
	fmt.Fprintf(&b, "\n%s\n", f.Paint(term.Bold, "Description:"))
	for _, line := range commandline.Wrap(e.Description, textWidth-2) {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	list("Common Causes:", e.Causes)
	list("Recommended Actions:", e.Actions)
	fmt.Fprintf(&b, "\n%s\n", f.Paint(term.Bold, "How it shows:"))
	for _, s := range e.Detected {
		for j, line := range commandline.Wrap(s.What, textWidth-10) {
			source := ""
			if j == 0 {
				source = string(s.Source)
			}
			fmt.Fprintf(&b, "  %-6s  %s\n", source, line)
		}
	}
	fmt.Fprintf(&b, "\nDocumentation: %s\nKernel: %s\n", amd.Documentation, e.Link)
	_, err := io.WriteString(w, b.String())
	return err
}

// ListErrors writes the table of errors.
func (c *Actions) ListErrors(w io.Writer, f term.Format) error {
	if f.JSON {
		return term.JSON(w, struct {
			Errors []amd.ErrorCode `json:"errors"`
		}{amd.ErrorCodes(c.Commands().Name())})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", f.Paint(term.Bold, "CODE  NAME                       SEVERITY  DESCRIPTION"))
	for _, e := range amd.ErrorCodes(c.Commands().Name()) {
		what, _, _ := strings.Cut(e.Description, ". ")
		severity := f.Column(term.SeverityColour(e.Severity), string(e.Severity), 8)
		fmt.Fprintf(&b, "%4d  %-25s  %s  %s\n", e.Code, e.Name, severity,
			strings.Join(commandline.Wrap(strings.TrimSuffix(what, "."), textWidth-descriptionColumn),
				"\n"+strings.Repeat(" ", descriptionColumn)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
