package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is a hook with so many workers.
type row struct {
	hook    string
	workers int
	samples []sample
}

func (r row) median(of func(sample) time.Duration) float64 {
	var all []time.Duration
	for _, s := range r.samples {
		all = append(all, of(s))
	}
	slices.Sort(all)
	return float64(all[len(all)/2]) / float64(time.Millisecond)
}

// most is the largest number of a name in any of the samples, so that no hook
// hides behind others.
func (r row) most(of func(sample) map[string]int) map[string]int {
	all := map[string]int{}
	for _, s := range r.samples {
		for name, n := range of(s) {
			all[name] = max(all[name], n)
		}
	}
	return all
}

func calls(s sample) map[string]int     { return s.calls }
func systemctl(s sample) map[string]int { return s.systemctl }

func report(w io.Writer, rows []row) error {
	fmt.Fprintf(w, "hooks of a web while workers join one by one; joined and changed: medians of the last %d at most, the others once\n", window)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "hook\tworkers\tcalls\twall ms\tCPU ms\tdispatch alone\tKiB written\tsystemctl\t")
	for _, r := range rows {
		total, written := 0, int64(0)
		for _, n := range r.most(calls) {
			total += n
		}
		for _, s := range r.samples {
			written = max(written, s.written)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%s\t\n", r.hook, r.workers, total,
			r.median(func(s sample) time.Duration { return s.wall }), r.median(func(s sample) time.Duration { return s.cpu }),
			r.median(func(s sample) time.Duration { return s.own }), float64(written)/1024, counts(r.most(systemctl)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return reportCalls(w, rows)
}

// reportCalls is the number of calls by hook tool.
func reportCalls(w io.Writer, rows []row) error {
	tools := map[string]bool{}
	for _, r := range rows {
		for name := range r.most(calls) {
			tools[name] = true
		}
	}
	names := slices.Sorted(maps.Keys(tools))
	fmt.Fprintln(w, "\ncalls of hook tools, the most of any of these hooks")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "hook\tworkers\t"+strings.Join(names, "\t")+"\t")
	for _, r := range rows {
		of := r.most(calls)
		fmt.Fprintf(t, "%s\t%d\t", r.hook, r.workers)
		for _, name := range names {
			fmt.Fprintf(t, "%d\t", of[name])
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// counts is "reload 1, restart 1", "-" for none.
func counts(of map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s %d", name, of[name]))
	}
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, ", ")
}

// total is all hooks by which the workers came.
type total struct {
	hooks, calls int
	wall, cpu    time.Duration
	systemctl    map[string]int
}

func (t *total) add(s sample) {
	t.hooks++
	t.wall, t.cpu = t.wall+s.wall, t.cpu+s.cpu
	for _, n := range s.calls {
		t.calls += n
	}
	if t.systemctl == nil {
		t.systemctl = map[string]int{}
	}
	for verb, n := range s.systemctl {
		t.systemctl[verb] += n
	}
}

func (t *total) print(w io.Writer, workers int) error {
	mean := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(max(t.hooks, 1)) }
	_, err := fmt.Fprintf(w, "\n%d workers joined with %d hooks, %d calls of hook tools and systemctl %s in %.1f s: %.1f ms and %.1f ms of CPU a hook\n",
		workers, t.hooks, t.calls, counts(t.systemctl), t.wall.Seconds(), mean(t.wall), mean(t.cpu))
	return err
}
