package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	vendors "github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// Answer answers whether a job can start now.
type Answer string

// Values of Answer.
const (
	Yes   Answer = "yes"
	No    Answer = "no"
	Maybe Answer = "maybe" // tasks wait although a GPU is free, or the page lacks a fact
)

// Start answers whether a job for GPUs of one kind can start now.
type Start struct {
	Kind   string `json:"kind"` // architecture, or the vendor of a GPU without one
	Now    Answer `json:"can_start"`
	Reason string `json:"reason"`
}

// kindOf returns the kind of a GPU.
func kindOf(g GPU) string { return cmp.Or(g.GFX, vendors.Vendor(g.Vendor).Label(), "other GPUs") }

// census counts the GPUs of a kind by what they do for a new job.
type census struct {
	all, free, shared, leased, quarantined, onProbation, stopped, unknown int

	oldest time.Time // start of the oldest lease
}

// add counts a GPU. A worker that does not run gets no tasks from Concourse, if Concourse is known.
func (c *census) add(w Worker, g GPU, known bool) {
	c.all++
	switch {
	case !w.Answered:
		c.unknown++
	case g.Use == Quarantined:
		c.quarantined++
	case g.Use == OnProbation:
		c.onProbation++
	case known && w.State != "running":
		c.stopped++
	case g.Use == Free:
		c.free++
	case g.Use == InUse: // without leases, tasks share the GPU
		c.shared++
	case g.Use == Leased:
		c.leased++
		if l := g.Lease; l != nil && l.Since != nil && (c.oldest.IsZero() || l.Since.Before(c.oldest)) {
			c.oldest = *l.Since
		}
	default:
		c.unknown++
	}
}

// StartsOf returns an answer for each kind of GPU that a worker has or that is required, the best
// first. waiting has the number of tasks by kind that wait for a worker; nil: unknown.
func StartsOf(r Report, waiting map[string]int) []Start {
	kinds := map[string]*census{}
	for _, c := range r.Coverage {
		kinds[c.Arch] = &census{}
	}
	for _, w := range r.Workers {
		for _, g := range w.GPUs {
			if kinds[kindOf(g)] == nil {
				kinds[kindOf(g)] = &census{}
			}
			kinds[kindOf(g)].add(w, g, r.Concourse.Time != nil)
		}
	}
	out := []Start{}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		s := kinds[kind].start(waiting[kind], r.Time)
		switch s.Kind = kind; {
		case s.Now != Yes:
		case r.Concourse.Time == nil:
			s.Now, s.Reason = Maybe, s.Reason+", but Concourse does not answer"
		case waiting == nil:
			s.Now, s.Reason = Maybe, s.Reason+", but the number of waiting tasks is unknown"
		}
		out = append(out, s)
	}
	order := []Answer{Yes, Maybe, No}
	slices.SortStableFunc(out, func(a, b Start) int {
		return cmp.Compare(slices.Index(order, a.Now), slices.Index(order, b.Now))
	})
	return out
}

// start returns the answer for the GPUs.
func (c census) start(waiting int, at time.Time) Start {
	gpus, wait := units.Count(c.all, "GPU"), units.Count(waiting, "task")+" wait"
	if waiting == 1 {
		wait += "s"
	}
	s := Start{Now: Yes}
	switch {
	case c.all == 0:
		return Start{Now: No, Reason: "no worker has one"}
	case c.free > 0:
		s.Reason = fmt.Sprintf("%d of %s %s free", c.free, gpus, isOrAre(c.free))
	case c.shared > 0:
		s.Reason = fmt.Sprintf("tasks share %d of %s", c.shared, gpus)
	default:
		if s.Now, s.Reason = No, c.reason(gpus, at); c.unknown > 0 {
			s.Now = Maybe
		}
		if waiting > 0 {
			s.Reason += "; " + wait
		}
		return s
	}
	if waiting > 0 {
		s.Now, s.Reason = Maybe, s.Reason+", but "+wait
	}
	return s
}

// reason returns why no GPU is free.
func (c census) reason(gpus string, at time.Time) string {
	var parts []string
	leased := "in use"
	if !c.oldest.IsZero() {
		leased += ", the longest for " + age(c.oldest, at)
	}
	for _, p := range []struct {
		n    int
		text string
	}{{c.leased, leased}, {c.quarantined, "quarantined"}, {c.onProbation, "on probation"},
		{c.stopped, "on a worker that does not run"}, {c.unknown, "unknown"}} {
		switch {
		case p.n == c.all && c.all == 1:
			return "its only GPU is " + p.text
		case p.n == c.all:
			return "all " + gpus + " are " + p.text
		case p.n > 0:
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.text))
		}
	}
	return "none of " + gpus + " is free: " + strings.Join(parts, ", ")
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// waitingByKind counts the tasks that wait for a worker with a kind of GPU.
func (o observed) waitingByKind(workers []Worker) map[string]int {
	kinds := map[string]map[string]bool{} // by worker
	for _, w := range workers {
		kinds[w.Worker] = map[string]bool{}
		for _, g := range w.GPUs {
			kinds[w.Worker][kindOf(g)] = true
		}
	}
	out := map[string]int{}
	for g, n := range o.waiting {
		fitting := map[string]bool{}
		for _, w := range o.site.Workers {
			if g.Type == "task" && mayRun(g, w) {
				maps.Copy(fitting, kinds[name(w.Name)])
			}
		}
		for kind := range fitting {
			out[kind] += n
		}
	}
	return out
}

// job is the answer whether a job can start now.
type job struct{ Class, Mark, Text, Reason string }

// jobOf returns the text of an answer.
func jobOf(s Start) job {
	switch s.Now {
	case Yes:
		return job{string(health.Healthy), "✓", "A job for " + s.Kind + " can start now", s.Reason}
	case No:
		return job{string(health.Critical), "✕", "No job for " + s.Kind + " can start now", s.Reason}
	}
	return job{string(health.Warning), "!", "A job for " + s.Kind + " may have to wait", s.Reason}
}
