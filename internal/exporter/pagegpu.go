package exporter

import (
	"cmp"
	"concourse-ci-machine/internal/base/wellknown"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"concourse-ci-machine/internal/exporter/api"
	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/gpu/health"
	"concourse-ci-machine/internal/pool"
	"concourse-ci-machine/internal/pool/quarantine"
)

// shownGPU describes a GPU on the page, with its partitions if it is divided.
type shownGPU struct {
	ID, Name   string // "GPU 3", "GPU 8 to 15"
	Model, PCI string
	Details    string // further identification
	State      health.State
	Mark       string // of the state, for readers who do not see colours
	Score      string
	Reason     string
	Explained  []explanation
	Excluded   *exclusion
	Bars       []bar
	Divided    bool
	Parts      []shownPart // one part for a whole GPU
}

type explanation struct {
	health.Explanation
	Command string // shows more
}

// Unfolded reports whether the reason is unfolded.
func (g shownGPU) Unfolded() bool { return g.State == health.Critical || g.State == health.Warning }

// shownPart describes a part that a task can use: a partition, or the whole GPU.
type shownPart struct {
	ID, Name string // "partition 3"
	GPU      string // "GPU 11"
	Bar      bar    // activity of a partition
	Users    string // short text of the users
	Doubt    string // of its lease
	Excluded *exclusion
	Uses     []api.Use
}

// exclusion explains why the GPU is excluded from new tasks.
type exclusion struct {
	State quarantine.State
	Mark  string // for readers who do not see colours
	Text  string // start and reason
}

// bar shows a reading in words, as a bar if its limit is known, and its past.
type bar struct {
	Label, Text string
	Short       string // for narrow places
	Value, Max  float64
	Past, Range string // as an SVG path, and in words
}

var marks = map[health.State]string{health.Healthy: "✓", health.Warning: "!", health.Critical: "✕", health.Unknown: "?"}

var exclusionMarks = map[quarantine.State]string{quarantine.Quarantined: "⊘", quarantine.Proving: "↻"}

// exclusionOf returns why parts of one GPU are excluded, nil if tasks get all of them. If several
// are excluded, it describes the earliest.
func exclusionOf(all []api.Status) *exclusion {
	n, first := 0, (*pool.Service)(nil)
	for i := range all {
		if !all[i].Excluded() {
			continue
		}
		if n++; first == nil || all[i].Service.Since.Before(first.Since) {
			first = all[i].Service
		}
	}
	if n == 0 {
		return nil
	}
	out := &exclusion{first.State, exclusionMarks[first.State], first.Text()}
	if len(all) > 1 {
		out.Text = fmt.Sprintf("%d of %d partitions, the first %s", n, len(all), out.Text)
	}
	return out
}

// rank sorts GPUs that tasks get behind others of the same health.
func (o *exclusion) rank() int {
	if o == nil {
		return 1
	}
	return 0
}

// gpusOfPage returns the GPUs of a report, the worst first.
func gpusOfPage(r api.Report) []shownGPU {
	var out []shownGPU
	for _, partitions := range api.GroupByGPU(r.GPUs) {
		out = append(out, gpuOfPage(r, partitions))
	}
	slices.SortStableFunc(out, func(a, b shownGPU) int {
		return cmp.Or(cmp.Compare(slices.Index(api.States, a.State), slices.Index(api.States, b.State)),
			cmp.Compare(a.Excluded.rank(), b.Excluded.rank()))
	})
	return out
}

// gpuOfPage converts the statuses of one GPU. The first has the sensors.
func gpuOfPage(r api.Report, all []api.Status) shownGPU {
	s := &all[0]
	g := shownGPU{ID: "gpu-" + s.PCI, Name: fmt.Sprintf("GPU %d", s.Index), Model: s.Name, PCI: s.PCI,
		State:  api.StateOf(*s),
		Reason: s.Health.Reason, Excluded: exclusionOf(all), Divided: s.Partitions > 1}
	g.Mark = marks[g.State]
	if s.Health.Score != nil {
		g.Score = fmt.Sprintf(", %.0f of 100", *s.Health.Score)
	}
	command := wellknown.Command + " explain "
	if r.Unit != "" {
		command = wellknown.RunAction(r.Unit, "explain-error code=")
	}
	for _, e := range s.Explained {
		g.Explained = append(g.Explained, explanation{e, command + strconv.Itoa(e.Code)})
	}
	what := []string{s.GFX}
	if s.UUID != s.PCI && !g.Divided {
		what = append(what, s.UUID)
	}
	history := cmp.Or(s.History, &monitor.History{})
	activity, activities := s.Activity, history.Activity
	if g.Divided {
		activity, activities = s.SocketActivity, nil
		mode := strings.Trim(s.ComputePartition+"/"+s.MemoryPartition, "/")
		what = append(what, mode, fmt.Sprintf("%d of %d partitions", len(all), s.Partitions))
		if last := all[len(all)-1].Index; last > s.Index {
			g.Name += fmt.Sprintf(" to %d", last)
		}
	}
	g.Details = strings.Join(slices.DeleteFunc(what, func(w string) bool { return w == "" }), ", ")
	temperature := newBar(s, "Temperature", "%.0f °C", 1, s.Temperature, s.TemperatureLimit,
		past{history.Temperature, history.Interval})
	if s.Sensor != "" {
		temperature.Text += " (" + s.Sensor + ")"
	}
	g.Bars = []bar{
		temperature,
		newBar(s, "Power", "%.0f W", 1, s.Power, s.PowerCap, past{history.Power, history.Interval}),
		newBar(s, "Memory", "%.1f GiB", 1<<30, s.MemoryUsed, s.MemoryTotal, past{history.Memory, history.Interval}),
		activityBar(s, activity, past{activities, history.Interval}),
	}
	for i := range all {
		g.Parts = append(g.Parts, partOf(&all[i], r.Time))
	}
	return g
}

func partOf(s *api.Status, at time.Time) shownPart {
	p := shownPart{ID: fmt.Sprintf("gpu-%s-%d", s.PCI, s.Partition), Name: fmt.Sprintf("partition %d", s.Partition),
		GPU: fmt.Sprintf("GPU %d", s.Index), Excluded: exclusionOf([]api.Status{*s}), Uses: api.UsesOf(*s, at),
		Users: api.Unused(*s)}
	if s.Lease != nil {
		p.Doubt = s.Lease.Doubt
	}
	history := cmp.Or(s.History, &monitor.History{})
	p.Bar = activityBar(s, s.Activity, past{history.Activity, history.Interval})
	if len(p.Uses) > 0 {
		p.Users = p.Uses[0].Name
	}
	if n := len(p.Uses) - 1; n > 0 {
		p.Users += fmt.Sprintf(" and %d more", n)
	}
	return p
}

// past holds the values of a history and their distance in seconds.
type past struct {
	values []*float64
	every  float64
}

// newBar shows value and limit, each divided by per, and the past.
func newBar(s *api.Status, label, format string, per float64, value, limit *float64, p past) bar {
	b := bar{Label: label, Text: "not known", Short: "–"}
	words := func(v float64) string { return fmt.Sprintf(format, v/per) }
	switch {
	case value == nil && s.Suspended:
		b.Text, b.Short = "asleep", "asleep"
	case value != nil:
		b.Text, b.Short = words(*value), words(*value)
		if limit != nil && *limit > 0 {
			b.Value, b.Max = *value, *limit
			b.Text += " of " + words(*limit)
		}
	}
	b.draw(p, words)
	return b
}

// activityBar shows a value without a limit in words.
func activityBar(s *api.Status, value *float64, p past) bar {
	b := newBar(s, "Activity", "%.0f %%", .01, value, nil, p)
	if value != nil {
		b.Value, b.Max, b.Short = *value, 1, b.Text+" busy"
	}
	return b
}

// draw draws the past in a picture of 89 by 24, the newest point at the right end. An
// unknown value is a gap.
func (b *bar) draw(p past, words func(float64) string) {
	least, most, n := math.Inf(1), math.Inf(-1), 0
	for _, v := range p.values {
		if v != nil {
			least, most, n = min(least, *v), max(most, *v), n+1
		}
	}
	if n < 2 {
		return
	}
	top := max(b.Max, most)
	if top <= 0 {
		top = 1
	}
	var path strings.Builder
	open := false
	for i, v := range p.values {
		if v == nil {
			open = false
			continue
		}
		at := fmt.Sprintf("%d %.1f", 90-len(p.values)+i, 23-22*max(0, *v/top))
		if open {
			path.WriteString("L" + at)
		} else {
			path.WriteString("M" + at + "h0") // a single point is visible, too
		}
		open = true
	}
	minutes := "minute"
	if m := float64(len(p.values)) * p.every / 60; m >= 1.5 {
		minutes = fmt.Sprintf("%.0f minutes", m)
	}
	b.Past, b.Range = path.String(), fmt.Sprintf("%s to %s in the last %s", words(least), words(most), minutes)
}
