package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

func median(values []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }

// report prints all that was measured, and then the goals with what came of them.
func report(w io.Writer, variants []*variant, size int64) {
	wall := map[string]time.Duration{}
	for _, v := range variants {
		wall[v.name] = median(v.wall)
	}
	added := func(name string) float64 { return float64(wall[name] - wall[bare]) }
	ratio := func(name string) float64 { return added(name) / added(floor) }

	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "variant\tms\tadded ms\tadded / floor's\tCPU ms\tpeak RSS KiB\t")
	peak := 0
	for _, v := range variants {
		more, times := "-", "-"
		if v.times == 1 {
			more, times = ms(wall[v.name]-wall[bare]), fmt.Sprintf("%.2f", ratio(v.name))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t\n", v.name, ms(wall[v.name]), more, times, ms(median(v.cpu)), v.rss)
		if kib, err := strconv.Atoi(v.rss); err == nil && v.program != other {
			peak = max(peak, kib)
		}
	}
	t.Flush()

	if slices.ContainsFunc(variants, func(v *variant) bool { return v.program == other }) {
		fmt.Fprintln(w)
		compare(w, variants, wall)
	}

	var calls []time.Duration
	for _, v := range variants {
		if slices.Contains([]string{"state", "start", "kill", "delete"}, v.name) {
			calls = append(calls, v.wall...)
		}
	}
	wall[otherCalls] = median(calls)
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tmeasured\tgoal\t")
	for _, g := range []struct {
		what           string
		measured, goal float64
	}{
		{"create, 2 GPUs: added time / the floor's", ratio(create2), 1.8},
		{"create, 8 GPUs: added time / the floor's", ratio(create8), 1.8},
		{"create, 8 GPUs / 2 GPUs", added(create8) / added(create2), 1.15},
		{"state, start, kill, delete / the floor's", ratio(otherCalls), 1.1},
		{"exec of a marked container / the floor's", ratio(marked), 1.5},
		{"create leased, 1 of 8 GPUs / shared create of all 8", float64(wall[leased1]) / float64(wall[create8]), 1.3},
		{"create leased, the last of 8 / shared create of all 8", float64(wall[leasedLast]) / float64(wall[create8]), 1.3},
		// Two processors are full with eight creates, so these ratios are those of the CPU time,
		// which was 1.5 for one create (4.0 of 2.7 ms).
		{"8 creates in parallel, 2 GPUs / the floor's 8", float64(wall[create8x2]) / float64(wall[floor8x]), 1.5},
		{"8 creates in parallel, 8 GPUs / the floor's 8", float64(wall[create8x]) / float64(wall[floor8x]), 1.65},
		{"peak RSS, MiB", mib(peak), 4},
		{"binary, MiB", float64(size) / (1 << 20), 4},
	} {
		verdict := "met"
		switch {
		case math.IsNaN(g.measured):
			verdict = "not measured: needs busybox"
		case g.measured > g.goal:
			verdict = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%s\n", g.what, g.measured, g.goal, verdict)
	}
	t.Flush()
	fmt.Fprintf(w, "not judged, of the last of 8: added time / that of the shared create of all 8: %.2f, of one: %.2f; whole / shared create of one: %.2f\n",
		added(leasedLast)/added(create8), added(leasedLast)/added(create1), float64(wall[leasedLast])/float64(wall[create1]))
}

// mib is NaN if nothing was measured.
func mib(kib int) float64 {
	if kib == 0 {
		return math.NaN()
	}
	return float64(kib) / 1024
}

// compare prints what -against asks for: this build's whole times and CPU times
// over the other's.
func compare(w io.Writer, variants []*variant, wall map[string]time.Duration) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "this build / the other\tms\tCPU ms\t")
	for _, v := range variants {
		i := slices.IndexFunc(variants, func(o *variant) bool { return o.name == nameOfOther(v.name) })
		if i < 0 {
			continue
		}
		o := variants[i]
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t\n", v.name, float64(wall[v.name])/float64(wall[o.name]), float64(median(v.cpu))/float64(median(o.cpu)))
	}
	t.Flush()
}
