package flakes

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/flakereport"
)

const (
	maxContainers = 100_000 // that Concourse lists: 500 workers
	maxClaimed    = 1000    // of one worker, that Concourse does not list
	maxNames      = 128     // of GPUs of one worker
	// retryAfter is the time for which a worker with an error is not asked again, such as after a
	// reboot. It is shorter than the usual 30 s between rounds, so that none is left out.
	retryAfter = 25 * time.Second
	// near is the difference of two clocks, at most, for the same end of a task.
	near = 2 * time.Minute
	// exactly is the difference for a task that only its end identifies.
	exactly = 3 * time.Second
)

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
// worker; a container has these too, and its handle leads to a verdict and to GPUs. Only
// Concourse decides which worker has a container. So a worker judges no task of another one.
type joiner struct {
	listed  map[string]*container            // that Concourse lists or listed, by handle
	claimed map[string]map[string]*container // that only their worker reports, by worker and handle
	gpus    map[string]map[string]string     // names of GPUs by worker
	next    int
	changed bool
}

func newJoiner() *joiner {
	return &joiner{listed: map[string]*container{}, claimed: map[string]map[string]*container{},
		gpus: map[string]map[string]string{}}
}

// add adds a container. Above most containers, those that were seen long ago are forgotten.
func add(to map[string]*container, handle string, c *container, most int) {
	if len(to) >= most {
		orders := make([]int, 0, len(to))
		for _, c := range to {
			orders = append(orders, c.order)
		}
		slices.Sort(orders)
		oldest := orders[len(orders)/10]
		maps.DeleteFunc(to, func(_ string, c *container) bool { return c.order <= oldest })
	}
	to[handle] = c
}

// container returns the container that a worker reports, or nil if another worker has it.
func (j *joiner) container(worker, handle string) *container {
	c := j.listed[handle]
	if c != nil && c.worker != worker {
		return nil
	}
	if c == nil {
		c = j.claimed[worker][handle]
	}
	if c == nil {
		if j.claimed[worker] == nil {
			j.claimed[worker] = map[string]*container{}
		}
		c = &container{worker: worker}
		add(j.claimed[worker], handle, c, maxClaimed)
	}
	j.next++
	c.order = j.next
	return c
}

// gpu returns the name of a worker's GPU, "" beyond the bound.
func (j *joiner) gpu(worker, name string) string {
	known := j.gpus[worker]
	if known == nil {
		known = map[string]string{}
		j.gpus[worker] = known
	}
	if one := known[name]; one != "" || len(known) >= maxNames {
		return one
	}
	known[name] = name
	return name
}

// see adds the containers that Concourse lists, and the GPUs in use.
func (j *joiner) see(s Seen, site jobexporter.Site) {
	for handle, b := range site.Builds {
		c := j.listed[handle]
		if c == nil {
			if c = j.claimed[b.Worker][handle]; c == nil {
				c = &container{}
			}
			delete(j.claimed[b.Worker], handle)
			add(j.listed, handle, c, maxContainers)
		}
		j.next++
		j.changed = j.changed || c.build != b.ID
		c.build, c.step, c.worker, c.order = b.ID, b.Step, b.Worker, j.next
	}
	there := map[string]bool{}
	for _, w := range s.Workers {
		there[w.Name] = true
		for _, g := range w.GPUs {
			for _, handle := range g.Holders {
				if w.Name == "" || !wellknown.IsHandle(handle) {
					continue
				}
				c, name := j.container(w.Name, handle), j.gpu(w.Name, g.PCI)
				if c != nil && name != "" && !slices.Contains(c.gpus, name) && len(c.gpus) < maxGPUs {
					c.gpus, j.changed = append(c.gpus, name), true
				}
			}
		}
	}
	maps.DeleteFunc(j.claimed, func(worker string, _ map[string]*container) bool { return !there[worker] })
	maps.DeleteFunc(j.gpus, func(worker string, _ map[string]string) bool { return !there[worker] })
}

// judge adds the verdicts of a worker.
func (j *joiner) judge(worker string, entries []entry) {
	for _, e := range entries {
		c := j.container(worker, e.Handle)
		if c == nil {
			continue
		}
		if old := c.verdict; old == nil || old.Kind != e.Kind || old.Text != e.Text || old.Reason != e.Reason {
			var gpus names
			for _, name := range e.GPUs {
				if name = j.gpu(worker, name); name != "" {
					gpus = append(gpus, name)
				}
			}
			e.GPUs = gpus
			c.verdict, j.changed = &e, true
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
	for _, c := range j.listed {
		by[step{c.build, c.step, c.worker}] = append(by[step{c.build, c.step, c.worker}], c)
	}
	for worker, all := range j.claimed {
		for _, c := range all {
			if c.verdict != nil {
				unknown[worker] = append(unknown[worker], c)
			}
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
		if errs[i] == nil {
			f.joiner.judge(w.Name, answers[i])
		} else {
			silent[w.URL] = now.Add(retryAfter)
		}
	}
	f.silent = silent
}

// answers returns the answer for each container of a build: infrastructure, if it failed a
// task and no task failed by itself. Of several attempts of a step the last one counts. The
// answer goes into comments, so it has none of the texts that a worker chooses.
func (j *joiner) answers() map[string]Answer {
	type step struct {
		build int
		name  string
	}
	last := map[step]*entry{}
	for _, c := range j.listed {
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
	for handle, c := range j.listed {
		if c.build == 0 {
			continue
		}
		out[handle] = Answer{}
		if e := blamed[c.build]; e != nil && !itself[c.build] {
			out[handle] = Answer{true, flakereport.Sentence(e.Kind, e.Reason)}
		}
	}
	return out
}
