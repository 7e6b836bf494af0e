package baseline

import (
	"fmt"
	"strings"
)

// Markdown is the report for a comment on a pull request.
func (r Report) Markdown() string {
	var b strings.Builder
	verdict, rest, _ := strings.Cut(r.Verdict(), ": ")
	fmt.Fprintf(&b, "**gpu-baseline: %s**: %s\n\n", verdict, rest)
	fmt.Fprintf(&b, "%s compared with the baseline %s\n\n", code(r.New), code(r.Base))
	b.WriteString("| example | result | duration (s) | change | peak memory (MB) | change |\n|---|---|---|---|---|---|\n")
	for _, row := range r.Rows {
		result := string(row.Result)
		if row.Gates {
			result = "**" + result + "**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", code(row.Name), result, strings.Join(row.cells("→"), " | "))
	}
	reasons, notes := r.lines(code, code)
	for _, list := range []struct {
		title string
		lines []string
	}{{"Why it failed:", reasons}, {"Notes:", notes}} {
		if len(list.lines) > 0 {
			fmt.Fprintf(&b, "\n%s\n\n- %s\n", list.title, strings.Join(list.lines, "\n- "))
		}
	}
	return b.String()
}
