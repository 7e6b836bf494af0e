package baseline

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// ABReport describes the complete comparison. As JSON it is the output.
type ABReport struct {
	Version  int        `json:"version"`
	Result   Answer     `json:"result"` // worse if one example is; otherwise not clear if one is
	A        string     `json:"a"`
	B        string     `json:"b"`
	Limits   Limits     `json:"limits"`
	Rounds   int        `json:"rounds"`
	Examples []Compared `json:"examples"`
}

// finish decides about the complete comparison.
func (r *ABReport) finish() {
	r.Result = NotInAll
	for _, answer := range []Answer{NoWorse, Unclear, Worse} { // the last one that occurs
		if slices.ContainsFunc(r.Examples, func(c Compared) bool { return c.Result == answer }) {
			r.Result = answer
		}
	}
}

// JSON returns the report for programs.
func (r ABReport) JSON() string { return encoded(r) }

// Verdict returns the report in one line, without names from outside.
func (r ABReport) Verdict() string {
	word := map[Answer]string{Worse: "FAILED", NoWorse: "OK", Unclear: "NOT CLEAR", NotInAll: "FAILED"}[r.Result]
	n := map[Answer]int{}
	for _, c := range r.Examples {
		n[c.Result]++
	}
	var parts []string
	for _, a := range []Answer{Worse, NoWorse, Unclear, NotInAll} {
		if n[a] > 0 {
			parts = append(parts, fmt.Sprint(n[a], " ", a))
		}
	}
	return fmt.Sprintf("%s: %s; %d rounds; %s", word, strings.Join(parts, ", "), r.Rounds, r.Limits)
}

// rows returns the cells of each example, after its name.
func (r ABReport) rows(arrow string) (rows [][]string) {
	for _, c := range r.Examples {
		spread := "-"
		if c.Row.Duration != nil {
			spread = fmt.Sprintf("%s %%, %s %%", c.A.Spread, c.B.Spread)
		}
		rows = append(rows, append([]string{string(c.Result), c.Confidence.String() + " %", spread}, c.cells(arrow)...))
	}
	return rows
}

// reasons returns why examples are worse. name formats a name from outside.
func (r ABReport) reasons(name func(string) string) (lines []string) {
	for _, c := range r.Examples {
		for _, reason := range c.Reasons {
			lines = append(lines, name(c.Name)+": "+reason)
		}
	}
	return lines
}

// Text returns the report for a terminal or a build's log.
func (r ABReport) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "B: %s\ncompared with A: %s\n\n", visible(r.B), visible(r.A))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "EXAMPLE\tRESULT\tSURE\tNOISE OF A, B\tDURATION s\tCHANGE\tPEAK MEMORY MB\tCHANGE")
	for i, cells := range r.rows("->") {
		fmt.Fprintf(w, "%s\t%s\n", visible(r.Examples[i].Name), strings.Join(cells, "\t"))
	}
	w.Flush()
	section(&b, "What exceeds the limits", r.reasons(quoted))
	fmt.Fprintf(&b, "\n%s\n", r.Verdict())
	return b.String()
}

// Markdown returns the report for a comment on a pull request.
func (r ABReport) Markdown() string {
	var b strings.Builder
	verdict, rest, _ := strings.Cut(r.Verdict(), ": ")
	fmt.Fprintf(&b, "**gpu-baseline: %s**: %s\n\nB %s compared with A %s\n\n", verdict, rest, code(r.B), code(r.A))
	b.WriteString("| example | result | sure | noise of A, B | duration (s) | change | peak memory (MB) | change " +
		"|\n|---|---|---|---|---|---|---|---|\n")
	for i, cells := range r.rows("→") {
		fmt.Fprintf(&b, "| %s | %s |\n", code(r.Examples[i].Name), strings.Join(cells, " | "))
	}
	if reasons := r.reasons(code); len(reasons) > 0 {
		fmt.Fprintf(&b, "\nWhat exceeds the limits:\n\n- %s\n", strings.Join(reasons, "\n- "))
	}
	return b.String()
}
