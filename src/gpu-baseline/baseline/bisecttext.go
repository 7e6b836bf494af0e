package baseline

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// JSON returns the report for programs.
func (r BisectReport) JSON() string { return encoded(r) }

// Verdict returns the report in one line, without names from outside.
func (r BisectReport) Verdict() string {
	n := map[Outcome]int{}
	for _, f := range r.Examples {
		n[f.Result]++
	}
	parts := []string{}
	for _, o := range []Outcome{FoundOne, FoundRange, NotWorse, NotMeasured} {
		if n[o] > 0 {
			parts = append(parts, fmt.Sprint(n[o], " ", o))
		}
	}
	word := "FOUND"
	if !r.OK {
		word = "NOT CLEAR"
	}
	return word + ": " + strings.Join(parts, ", ") + "; " + r.Limits.String()
}

func (r BisectReport) head(name func(string) string) string {
	return fmt.Sprintf("%d commits after %s (good) up to %s (bad): %d profiles were there, %d runs were made",
		r.Commits, name(r.Good.short()), name(r.Bad.short()), r.Profiles, r.Runs)
}

// answer returns an example's answer in one line.
func (f Found) answer() string {
	s := string(f.Result)
	if f.Result == FoundRange {
		s = fmt.Sprintf("one of %d commits", len(f.Culprits))
	}
	if f.Confidence != nil {
		s += fmt.Sprintf(", confidence %s %%, noise %s %%", f.Confidence, f.NoisePct)
	}
	return s
}

// because returns the reasons of the first worse commit.
func (f Found) because() []string {
	for _, p := range f.Points {
		if len(f.Culprits) > 0 && p.ID == f.Culprits[len(f.Culprits)-1].ID {
			return p.Reasons
		}
	}
	return nil
}

// measured returns the cells of a point.
func (p Point) measured(arrow string) []string {
	word := "good"
	if p.Worse {
		word = "bad"
	}
	return append([]string{fmt.Sprint(p.Runs), word, p.Confidence.String() + " %"}, p.cells(arrow)...)
}

// Text returns the report for a terminal or a build's log.
func (r BisectReport) Text() string {
	var b strings.Builder
	b.WriteString(r.head(visible) + "\n")
	for _, f := range r.Examples {
		fmt.Fprintf(&b, "\n%s: %s\n", quoted(f.Name), f.answer())
		for _, c := range f.Culprits {
			fmt.Fprintf(&b, "  %s %s\n", visible(c.short()), visible(c.Subject))
		}
		for _, reason := range f.because() {
			fmt.Fprintf(&b, "  %s\n", reason)
		}
		if len(f.Culprits) > 0 {
			b.WriteString("\n")
			w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "COMMIT\tRUNS\tVERDICT\tSURE\tDURATION s\tCHANGE\tPEAK MEMORY MB\tCHANGE")
			for _, p := range f.Points {
				fmt.Fprintf(w, "%s\t%s\n", visible(p.short()), strings.Join(p.measured("->"), "\t"))
			}
			w.Flush()
		}
		section(&b, "Notes", f.Notes)
	}
	section(&b, "Notes on the whole", r.Notes)
	fmt.Fprintf(&b, "\n%s\n", r.Verdict())
	return b.String()
}

// Markdown returns the report for a comment or an issue.
func (r BisectReport) Markdown() string {
	var b strings.Builder
	verdict, rest, _ := strings.Cut(r.Verdict(), ": ")
	fmt.Fprintf(&b, "**gpu-baseline: %s**: %s\n\n%s\n", verdict, rest, r.head(code))
	list := func(lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n- %s\n", strings.Join(lines, "\n- "))
		}
	}
	for _, f := range r.Examples {
		fmt.Fprintf(&b, "\n%s: %s\n", code(f.Name), f.answer())
		var lines []string
		for _, c := range f.Culprits {
			lines = append(lines, code(c.short())+" "+code(c.Subject))
		}
		list(append(lines, f.because()...))
		if len(f.Culprits) > 0 {
			b.WriteString("\n| commit | runs | verdict | sure | duration (s) | change | peak memory (MB) | " +
				"change |\n|---|---|---|---|---|---|---|---|\n")
			for _, p := range f.Points {
				fmt.Fprintf(&b, "| %s | %s |\n", code(p.short()), strings.Join(p.measured("→"), " | "))
			}
		}
		list(f.Notes)
	}
	var notes []string
	for _, n := range r.Notes {
		notes = append(notes, code(n))
	}
	list(notes)
	return b.String()
}
