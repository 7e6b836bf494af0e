package baseline

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
)

// JSON is the report for programs.
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

// Verdict is the report in one line, without names from outside.
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

// String names the limits.
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

// cells are a row's numbers for people, the same in text and Markdown.
func (r Row) cells(arrow string) []string {
	var was, is Measured
	if r.Base != nil {
		was = *r.Base
	}
	if r.New != nil {
		is = *r.New
	}
	duration := change(r.Duration, "s")
	switch {
	case r.DurationPct != nil:
		duration += " (" + signed(r.DurationPct.String()) + " %)"
	case r.Duration != nil:
		duration += " (n/a %)"
	}
	return []string{
		fromTo(was.Duration, is.Duration, arrow), duration,
		fromTo(was.Memory, is.Memory, arrow), change(r.Memory, "MB"),
	}
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

// Text is the report for a terminal or a build's log.
func (r Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s compared with the baseline %s\n\n", visible(r.New), visible(r.Base))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "EXAMPLE\tRESULT\tDURATION s\tCHANGE\tPEAK MEMORY MB\tCHANGE")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%s\t%s\n", visible(row.Name), row.Result, strings.Join(row.cells("->"), "\t"))
	}
	w.Flush()
	reasons, notes := r.lines(quoted, visible)
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

// lines are the reasons and notes for people; name shows a name from outside, and
// command what to type.
func (r Report) lines(name, command func(string) string) (reasons, notes []string) {
	reasons = append(reasons, r.Reasons...)
	for _, row := range r.Rows {
		if row.RenamedFrom != nil {
			notes = append(notes, name(row.Name)+": in the baseline it is "+name(*row.RenamedFrom))
		}
		for _, s := range row.Reasons {
			reasons = append(reasons, name(row.Name)+": "+s)
		}
		for _, s := range row.Notes {
			notes = append(notes, name(row.Name)+": "+s)
		}
	}
	notes = append(notes, r.Notes...)
	for _, spec := range r.Stale {
		notes = append(notes, command("--rename "+spec)+" has no effect: the baseline has nothing under the old name")
	}
	if h := r.Probably; h != nil {
		hint := fmt.Sprintf("if %s is %s under a new name, say so", name(h.To), name(h.From))
		if word, ok := shellWord(h.From + "=" + h.To); ok {
			hint += " with " + command("--rename "+word)
		}
		notes = append(notes, hint)
	}
	return reasons, notes
}
