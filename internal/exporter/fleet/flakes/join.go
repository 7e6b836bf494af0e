package flakes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/sanitize"
	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/concourse/flake"
	"concourse-ci-machine/internal/concourse/jobexporter"
	"concourse-ci-machine/internal/exporter/fleet/flakereport"
	"concourse-ci-machine/internal/pool/verdict"
)

// Bounds on verdicts.
const (
	maxVerdicts   = verdict.MaxEntries // of one worker
	maxAnswer     = 4 << 20            // bytes
	maxText       = 300                // characters of a reason
	maxGPUs       = 64                 // of one task
	maxContainers = 100_000            // 500 workers
	// silentFor is the time for which a worker with an older charm is not asked again.
	silentFor = 10 * time.Minute
	// retryAfter is the same time for a worker with another error, such as after a reboot. It
	// is shorter than the usual 30 s between rounds, so that none is left out.
	retryAfter = 25 * time.Second
	// near is the difference of two clocks, at most, for the same end of a task.
	near = 2 * time.Minute
	// exactly is the difference for a task that only its end identifies.
	exactly = 3 * time.Second
)

// ErrNotFound reports an answer 404.
var ErrNotFound = errors.New("it answers 404")

// Seen describes the fleet as a round of the fleet page saw it.
type Seen struct {
	Concourse string // URL for users
	HideNames bool
	Workers   []Worker
}

// Worker describes a worker with GPUs.
type Worker struct {
	Name, URL string
	GPUs      []GPU
}

// GPU describes a GPU and the containers that use it.
type GPU struct {
	Index   int
	PCI     string
	Holders []string
}

// entry decodes an element of a worker's /api/v1/verdicts: one ended task.
type entry struct {
	Handle string      `json:"handle"`
	Ended  time.Time   `json:"ended"`
	Exit   *int        `json:"exit"`
	Kind   flake.Cause `json:"kind"` // "" for a task that succeeded
	Text   string      `json:"text"`
	GPUs   []string    `json:"gpus"`
}

// container holds everything that is known about the container of a task.
type container struct {
	build   int // 0: unknown
	step    string
	worker  string
	gpus    []string // seen in use
	verdict *entry
	order   int // of its last sight
}

// joiner joins runs with containers. A run of Concourse's events has a build, a step and a
// worker; a container has these too, and its handle leads to a verdict and to GPUs.
type joiner struct {
	containers map[string]*container
	next       int
	changed    bool
}

func newJoiner() *joiner { return &joiner{containers: map[string]*container{}} }

// container returns the container of a handle. Containers that were seen long ago are forgotten.
func (j *joiner) container(handle string) *container {
	j.next++
	c := j.containers[handle]
	if c != nil {
		c.order = j.next
		return c
	}
	if len(j.containers) >= maxContainers {
		orders := make([]int, 0, len(j.containers))
		for _, c := range j.containers {
			orders = append(orders, c.order)
		}
		slices.Sort(orders)
		oldest := orders[maxContainers/10]
		maps.DeleteFunc(j.containers, func(_ string, c *container) bool { return c.order < oldest })
	}
	c = &container{order: j.next}
	j.containers[handle] = c
	return c
}

// see adds the containers that Concourse lists, and the GPUs in use.
func (j *joiner) see(s Seen, site jobexporter.Site) {
	for handle, b := range site.Builds {
		c := j.container(handle)
		j.changed = j.changed || c.build != b.ID
		c.build, c.step, c.worker = b.ID, b.Step, b.Worker
	}
	for _, w := range s.Workers {
		for _, g := range w.GPUs {
			for _, handle := range g.Holders {
				if !wellknown.IsHandle(handle) {
					continue
				}
				if c := j.container(handle); !slices.Contains(c.gpus, g.PCI) && len(c.gpus) < maxGPUs {
					c.gpus, c.worker, j.changed = append(c.gpus, g.PCI), w.Name, true
				}
			}
		}
	}
}

// judge adds the verdicts of a worker.
func (j *joiner) judge(worker string, entries []entry) {
	for _, e := range entries {
		c := j.container(e.Handle)
		if c.worker != "" && c.worker != worker {
			continue // another worker must not judge this one's task
		}
		if c.verdict == nil || c.verdict.Kind != e.Kind || c.verdict.Text != e.Text {
			c.worker, c.verdict, j.changed = worker, &e, true
		}
	}
}

// join returns the runs with their GPUs and verdicts.
func (j *joiner) join(runs []flake.Run) []flake.Run {
	type step struct {
		build        int
		step, worker string
	}
	by, unknown := map[step][]*container{}, map[string][]*container{}
	for _, c := range j.containers {
		switch {
		case c.build > 0:
			by[step{c.build, c.step, c.worker}] = append(by[step{c.build, c.step, c.worker}], c)
		case c.verdict != nil:
			unknown[c.worker] = append(unknown[c.worker], c)
		}
	}
	for i := range runs {
		r := &runs[i]
		name, _, _ := strings.Cut(r.Step, " (") // containers lack the values of across
		c := nearest(by[step{r.Build, name, r.Worker}], r.Time, near)
		if c == nil {
			c = nearest(unknown[r.Worker], r.Time, exactly)
		}
		if c == nil {
			continue
		}
		if r.GPUs = c.gpus; c.verdict != nil {
			if len(c.verdict.GPUs) > 0 {
				r.GPUs = c.verdict.GPUs
			}
			if r.Result != flake.Passed {
				r.Cause, r.Reason = c.verdict.Kind, c.verdict.Text
			}
		}
	}
	return runs
}

// nearest returns the container that ended at the time, or the only one without an end. Two
// containers that are equally possible are none.
func nearest(all []*container, at time.Time, most time.Duration) (found *container) {
	if len(all) == 1 && all[0].verdict == nil {
		return all[0]
	}
	best, twice := most+1, false
	for _, c := range all {
		if c.verdict == nil {
			continue
		}
		switch d := c.verdict.Ended.Sub(at).Abs(); {
		case d < best:
			best, found, twice = d, c, false
		case d == best:
			twice = true
		}
	}
	if twice {
		return nil
	}
	return found
}

// askWorkers asks all workers for their verdicts. Workers that failed before come last, so
// that they delay no others. A worker without verdicts is asked rarely.
func (f *Flakes) askWorkers(ctx context.Context, workers []Worker) {
	now := f.o.Now()
	silent := map[string]time.Time{} // without removed workers
	var due, last []Worker
	for _, w := range workers {
		until, failed := f.silent[w.URL]
		switch {
		case w.URL == "" || w.Name == "":
		case now.Before(until):
			silent[w.URL] = until
		case failed:
			last = append(last, w)
		default:
			due = append(due, w)
		}
	}
	due = append(due, last...)
	var urls []string
	for _, w := range due {
		urls = append(urls, w.URL+"/api/v1/verdicts")
	}
	answers := make([][]entry, len(due))
	errs := f.o.Ask(ctx, urls, func(i int, body io.Reader) (err error) {
		answers[i], err = decode(body)
		return err
	})
	for i, w := range due {
		switch err := errs[i]; {
		case err == nil:
			f.joiner.judge(w.Name, answers[i])
		case errors.Is(err, ErrNotFound):
			silent[w.URL] = now.Add(silentFor)
		default:
			silent[w.URL] = now.Add(retryAfter)
		}
	}
	f.silent = silent
}

// decode decodes a worker's verdicts. It accepts a list, or an object with the list below
// entries.
func decode(r io.Reader) ([]entry, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err != nil || len(data) > maxAnswer {
		return nil, fmt.Errorf("its answer is cut, or has more than %d bytes", maxAnswer)
	}
	var all []entry
	if err := json.Unmarshal(data, &all); err != nil {
		var in struct {
			Entries *[]entry `json:"entries"`
		}
		if json.Unmarshal(data, &in) != nil || in.Entries == nil {
			return nil, errors.New("its answer is not a list of verdicts")
		}
		all = *in.Entries
	}
	all = all[:min(len(all), maxVerdicts)]
	out := all[:0]
	for _, e := range all {
		known := e.Kind == "" || e.Kind == flake.ByTask || e.Kind == flake.Unclear || e.Kind.Infrastructure()
		if !wellknown.IsHandle(e.Handle) || !known {
			continue
		}
		e.Text = sanitize.Line(strings.TrimSpace(e.Text), maxText)
		e.GPUs = e.GPUs[:min(len(e.GPUs), maxGPUs)]
		for i := range e.GPUs {
			e.GPUs[i] = sanitize.Line(e.GPUs[i], 64)
		}
		out = append(out, e)
	}
	return out, nil
}

// answers returns the answer for each container of a build: infrastructure, if it failed a
// task and no task failed by itself. Of several attempts of a step the last one counts.
func (j *joiner) answers() map[string]Answer {
	type step struct {
		build int
		name  string
	}
	last := map[step]*entry{}
	for _, c := range j.containers {
		s := step{c.build, c.step}
		if c.build > 0 && c.verdict != nil && (last[s] == nil || last[s].Ended.Before(c.verdict.Ended)) {
			last[s] = c.verdict
		}
	}
	blamed, itself := map[int]*entry{}, map[int]bool{}
	for s, e := range last {
		first := blamed[s.build]
		switch {
		case e.Kind.Infrastructure() && (first == nil || e.Ended.Before(first.Ended)):
			blamed[s.build] = e
		case !e.Kind.Infrastructure() && e.Kind != "":
			itself[s.build] = true
		}
	}
	out := map[string]Answer{}
	for handle, c := range j.containers {
		if c.build == 0 {
			continue
		}
		out[handle] = Answer{}
		if e := blamed[c.build]; e != nil && !itself[c.build] {
			out[handle] = Answer{true, flakereport.Sentence(e.Kind, e.Text)}
		}
	}
	return out
}
