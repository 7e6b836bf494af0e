package baseline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// JSON returns the report for programs.
func (r Report) JSON() string { return encoded(r) }

func encoded(report any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(report); err != nil {
		panic(err) // no type in it can fail
	}
	return b.String()
}

// Verdict returns the report in one line, without names from outside.
func (r Report) Verdict() string {
	c := r.Counts
	word := "OK"
	if !r.OK {
		word = "FAILED"
	}
	parts := []string{}
	for _, p := range []struct {
		n    int
		what Result
	}{
		{c.Within, Within}, {c.Beyond, Beyond}, {c.Regressed, Regressed}, {c.Missing, Missing},
		{c.Skipped, Skipped}, {c.Failing, Failing}, {c.Fixed, Fixed}, {c.New, New},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprint(p.n, " ", p.what))
		}
	}
	if len(parts) == 0 {
		parts = []string{"no examples"}
	}
	return word + ": " + strings.Join(parts, ", ") + "; " + r.Limits.String()
}

// String returns the limits for people.
func (l Limits) String() string {
	var parts []string
	add := func(what, unit string, maxPct *Percent, most *Amount) {
		var two []string
		if maxPct != nil {
			two = append(two, fmt.Sprintf("%s +%s %%", what, maxPct))
		}
		if most != nil {
			two = append(two, fmt.Sprintf("%s +%s %s", what, most, unit))
		}
		if l.Together && len(two) == 2 {
			two = []string{two[0] + " and " + strings.TrimPrefix(two[1], what+" ")}
		}
		parts = append(parts, two...)
	}
	add("duration", "s", l.DurationPct, l.Duration)
	add("peak memory", "MB", l.MemoryPct, l.Memory)
	s := "limits: " + strings.Join(parts, ", ")
	if len(parts) == 0 {
		s = "no limits given, so only statuses decide"
		if !l.AllowMissing {
			s = "no limits given, so only statuses and missing examples decide"
		}
	}
	if l.AllowMissing {
		s += "; missing allowed"
	}
	return s
}

// hasEnergy reports whether an example has an energy, which adds two columns to the table.
func (r Report) hasEnergy() bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool {
		return row.Base != nil && row.Base.Energy != nil || row.New != nil && row.New.Energy != nil
	})
}

// cells returns a row's numbers for people, equal in text and Markdown.
func (r Row) cells(arrow string) []string {
	was, is := r.measured()
	return []string{
		fromTo(was.Duration, is.Duration, arrow), changePct(r.Duration, r.DurationPct, "s"),
		fromTo(was.Memory, is.Memory, arrow), change(r.Memory, "MB"),
	}
}

func (r Row) energyCells(arrow string) []string {
	was, is := r.measured()
	return []string{fromTo(was.Energy, is.Energy, arrow), changePct(r.Energy, r.EnergyPct, "J")}
}

func (r Row) measured() (was, is Measured) {
	if r.Base != nil {
		was = *r.Base
	}
	if r.New != nil {
		is = *r.New
	}
	return was, is
}

func changePct(a *Amount, pct *Percent, unit string) string {
	switch {
	case pct != nil:
		return change(a, unit) + " (" + signed(pct.String()) + " %)"
	case a != nil:
		return change(a, unit) + " (n/a %)"
	}
	return change(a, unit)
}

func fromTo(was, is *Amount, arrow string) string {
	if was == nil && is == nil {
		return "-"
	}
	side := func(a *Amount) string {
		if a == nil {
			return "-"
		}
		return a.String()
	}
	return side(was) + " " + arrow + " " + side(is)
}

func change(a *Amount, unit string) string {
	if a == nil {
		return "-"
	}
	return signed(a.String()) + " " + unit
}

// Text returns the report for a terminal or a build's log.
func (r Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s compared with the baseline %s\n\n", visible(r.New), visible(r.Base))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	energy, header := r.hasEnergy(), "EXAMPLE\tRESULT\tDURATION s\tCHANGE\tPEAK MEMORY MB\tCHANGE"
	if energy {
		header += "\tENERGY J\tCHANGE"
	}
	fmt.Fprintln(w, header)
	for _, row := range r.Rows {
		cells := row.cells("->")
		if energy {
			cells = append(cells, row.energyCells("->")...)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", visible(row.Name), row.Result, strings.Join(cells, "\t"))
	}
	w.Flush()
	reasons, notes := r.lines(quoted)
	section(&b, "Why it failed", reasons)
	section(&b, "Notes", notes)
	fmt.Fprintf(&b, "\n%s\n", r.Verdict())
	return b.String()
}

func section(b *strings.Builder, title string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(b, "\n%s:\n  %s\n", title, strings.Join(lines, "\n  "))
	}
}

// lines returns the reasons and notes for people. name formats a name from outside.
func (r Report) lines(name func(string) string) (reasons, notes []string) {
	reasons = append(reasons, r.Reasons...)
	for _, row := range r.Rows {
		for _, s := range row.Reasons {
			reasons = append(reasons, name(row.Name)+": "+s)
		}
		for _, s := range row.Notes {
			notes = append(notes, name(row.Name)+": "+s)
		}
		if row.New != nil && row.New.Status == StatusFailed && row.New.Error != "" {
			notes = append(notes, name(row.Name)+": its error: "+name(row.New.Error))
		}
	}
	notes = append(notes, r.Notes...)
	return reasons, notes
}

// Markdown returns the report for a comment on a pull request.
func (r Report) Markdown() string {
	var b strings.Builder
	verdict, rest, _ := strings.Cut(r.Verdict(), ": ")
	fmt.Fprintf(&b, "**gpu-baseline: %s**: %s\n\n", verdict, rest)
	fmt.Fprintf(&b, "%s compared with the baseline %s\n\n", code(r.New), code(r.Base))
	energy := r.hasEnergy()
	header, line := "| example | result | duration (s) | change | peak memory (MB) | change |", "|---|---|---|---|---|---|"
	if energy {
		header, line = header+" energy (J) | change |", line+"---|---|"
	}
	fmt.Fprintf(&b, "%s\n%s\n", header, line)
	for _, row := range r.Rows {
		result := string(row.Result)
		if row.Gates {
			result = "**" + result + "**"
		}
		cells := row.cells("→")
		if energy {
			cells = append(cells, row.energyCells("→")...)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", code(row.Name), result, strings.Join(cells, " | "))
	}
	reasons, notes := r.lines(code)
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

// visible escapes characters that would move the cursor, change its colour or change the
// direction of writing. Names come from outside.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// quoted returns visible text in quotation marks.
func quoted(s string) string { return `"` + strings.ReplaceAll(visible(s), `"`, `\"`) + `"` }

// short bounds the length of a text from a file.
func short(s string) string {
	const limit = 40
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "..."
	}
	return s
}

// plain has the characters, in addition to letters and digits, without a special meaning in
// a code span in a table.
const plain = "._/:+=,- "

func isPlain(r rune) bool {
	return r < 0x80 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' ||
		strings.ContainsRune(plain, r))
}

// code formats s as code in a Markdown table. Other characters become character references
// in an element: a pipe would end the cell, a backtick the span, and Markdown's escapes do
// not work in spans. Code also prevents mentions of users.
func code(s string) string {
	s = visible(s)
	if s != "" && s == strings.TrimSpace(s) && strings.IndexFunc(s, func(r rune) bool { return !isPlain(r) }) < 0 {
		return "`" + s + "`"
	}
	var b strings.Builder
	b.WriteString("<code>")
	for i, r := range s {
		switch {
		case r == ' ' && i > 0, r >= 0x80, isPlain(r) && r != ' ' && r != '_' && r != ':' && r != '.':
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "&#%d;", r)
		}
	}
	return b.String() + "</code>"
}
