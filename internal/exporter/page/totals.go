package page

import (
	"fmt"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// total is one number of the summary. With Show it is a link to the GPUs that it counts.
type total struct {
	Text    string
	Class   string
	Link    bool
	Show    string // value of the parameter show
	Current bool   // the page shows only these GPUs
}

// condition selects GPUs or partitions.
type condition func(*api.Status) bool

var states = map[health.State]condition{
	health.Critical: hasState(health.Critical), health.Warning: hasState(health.Warning),
	health.Unknown: hasState(health.Unknown), health.Healthy: hasState(health.Healthy),
}

func hasState(state health.State) condition {
	return func(s *api.Status) bool { return api.StateOf(*s) == state }
}

// The conditions of tasks. They are false if leases or quarantines are not known.
func free(s *api.Status) bool   { return s.Lease != nil && !s.Lease.Held && !s.Excluded() }
func leased(s *api.Status) bool { return s.Lease != nil && s.Lease.Held }
func quarantined(s *api.Status) bool {
	return s.Service != nil && s.Service.State == quarantine.Quarantined
}
func onProbation(s *api.Status) bool {
	return s.Service != nil && s.Service.State == quarantine.OnProbation
}

// filters maps the values of the parameter show to their conditions.
var filters = map[string]condition{
	"critical": states[health.Critical], "warning": states[health.Warning], "unknown": states[health.Unknown],
	"healthy": states[health.Healthy], "free": free, "leased": leased, "quarantined": quarantined,
	"on_probation": onProbation,
}

// filter returns the GPUs with a partition that matches. current is "" if all GPUs are
// shown, as for an unknown name.
func filter(all [][]api.Status, show string) (shown [][]api.Status, current string) {
	match := filters[show]
	if match == nil {
		return all, ""
	}
	for _, partitions := range all {
		if count([][]api.Status{partitions}, match) > 0 {
			shown = append(shown, partitions)
		}
	}
	return shown, show
}

// count returns the number of GPUs or partitions that match.
func count(all [][]api.Status, match condition) (n int) {
	for _, partitions := range all {
		for i := range partitions {
			if match(&partitions[i]) {
				n++
			}
		}
	}
	return n
}

// headsOf returns the first partition of each GPU, because a GPU has one health and one
// power.
func headsOf(all [][]api.Status) [][]api.Status {
	heads := make([][]api.Status, len(all))
	for i, g := range all {
		heads[i] = g[:1]
	}
	return heads
}

// totalsOf returns the summary. Unknown numbers are left out.
func totalsOf(all [][]api.Status, current string) (out []total) {
	if len(all) == 0 {
		return []total{{Text: "No GPU"}}
	}
	partitions := count(all, func(*api.Status) bool { return true })
	first := total{Text: units.Count(len(all), "GPU"), Current: current == "" && len(all) > 1, Link: len(all) > 1}
	if partitions > len(all) {
		first.Text = units.Count(partitions, "partition") + " of " + first.Text
	}
	out = append(out, first)
	add := func(n int, class, mark string) {
		name := strings.ReplaceAll(class, "_", " ")
		out = append(out, total{Text: fmt.Sprintf("%s%d %s", mark, n, name), Class: class, Show: class,
			Current: current == class, Link: n > 0 && len(all) > 1})
	}
	heads := headsOf(all)
	for _, state := range api.States {
		if n := count(heads, states[state]); n > 0 {
			add(n, string(state), marks[state]+" ")
		}
	}
	if count(all, func(s *api.Status) bool { return s.Lease != nil }) > 0 {
		add(count(all, free), "free", "")
		add(count(all, leased), "leased", "")
	}
	if count(all, func(s *api.Status) bool { return s.Service != nil }) > 0 {
		add(count(all, quarantined), "quarantined", exclusionMarks[quarantine.Quarantined]+" ")
	}
	if n := count(all, onProbation); n > 0 {
		add(n, "on_probation", exclusionMarks[quarantine.OnProbation]+" ")
	}
	return append(out, sums(heads)...)
}

// sums returns the total power and the mean load of the GPUs that report them.
func sums(heads [][]api.Status) (out []total) {
	var power, limit, load float64
	powered, limited, loaded := 0, 0, 0
	for _, g := range heads {
		s := &g[0]
		if s.Power != nil {
			power, powered = power+*s.Power, powered+1
			if s.PowerCap != nil {
				limit, limited = limit+*s.PowerCap, limited+1
			}
		}
		if busy := loadOf(s); busy != nil {
			load, loaded = load+*busy, loaded+1
		}
	}
	of := func(n int) string {
		if n == len(heads) {
			return ""
		}
		return fmt.Sprintf(" (%d of %d GPUs)", n, len(heads))
	}
	if powered > 0 {
		text := "total power " + watts.text(power)
		if limited == powered && limit > 0 {
			text += " of " + watts.text(limit)
		}
		out = append(out, total{Text: text + of(powered)})
	}
	if loaded > 0 {
		out = append(out, total{Text: "mean load " + percent.text(load/float64(loaded)) + of(loaded)})
	}
	return out
}

// loadOf returns the load of a whole GPU.
func loadOf(s *api.Status) *float64 {
	if s.Partitions > 1 {
		return s.SocketActivity
	}
	return s.Activity
}
