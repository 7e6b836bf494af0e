// Package builds reads the finished builds of jobs from Concourse's API: their inputs, and
// from their events the tasks with worker, result and results of tests.
//
// A Collector asks for each finished build once, with a bounded number of requests a minute,
// and only for builds of jobs that ever fail. It never keeps the output of a task, and it
// writes no file. After a restart it reads the builds again, the newest first.
package builds

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
)

// Bounds of the collector.
const (
	maxBuilds   = 5000
	maxAge      = 30 * 24 * time.Hour
	page        = 100 // builds of one request
	askTimeout  = 20 * time.Second
	maxTries    = 3       // requests for a build that fail
	maxList     = 4 << 20 // bytes of a list, a plan or inputs
	maxEvents   = 64 << 20
	perBuild    = 3 // requests for a finished build
	maxName     = 1024
	maxMemory   = 32 << 20 // bytes of runs, about
	buildMemory = maxMemory / 8
	maxErrors   = 3 // of builds, in one round
	minuteParts = 60.0
	// listPart and runningPart are the parts of the requests that ask for the newest builds
	// and for running builds, at most. The rest is for tasks and older builds.
	listPart    = 1.0 / 4
	runningPart = 1.0 / 6
)

// MinPerMinute is the least number of requests a minute that reads builds: one for the list,
// one for a running build and those for a finished build.
const MinPerMinute = 2 + perBuild

// Options holds the settings of a Collector.
type Options struct {
	Get       Get
	Reference func(pipeline string, vars map[string]any) string // name of a pipeline as fly has it
	PerMinute int                                               // requests, at most; MinPerMinute or more
	Logs      *log.Logger
	Now       func() time.Time
}

// Collector holds the builds. It is for one goroutine.
type Collector struct {
	o      Options
	builds map[int]*build
	gaps   []span // builds that no list had yet, newest last
	newest int
	turn   int // the running build that was asked for last
	// Numbers of requests that are left: of all, for the list, and for running builds.
	tokens, lists, running float64

	at   time.Time // of the tokens
	err  error     // of the last round
	used int       // bytes of all runs, about
}

// span is a range of numbers of builds, from and to included.
type span struct{ from, to int }

// build holds a build of a job.
type build struct {
	answer
	key   flake.Key // without a step
	tries int
	read  bool // its tasks are known, or cannot be known
	tasks []flake.Run
}

// answer decodes an element of /api/v1/builds (atc/build.go).
type answer struct {
	ID       int            `json:"id"`
	Team     string         `json:"team_name"`
	Name     string         `json:"name"`
	Status   string         `json:"status"`
	Job      string         `json:"job_name"`
	Pipeline string         `json:"pipeline_name"`
	Vars     map[string]any `json:"pipeline_instance_vars"`
	End      int64          `json:"end_time"`
	RerunOf  *struct {
		ID int `json:"id"`
	} `json:"rerun_of"`
}

// running reports whether the build has no result yet.
func (a answer) running() bool { return a.Status == "pending" || a.Status == "started" }

// failed reports whether the build makes its job worth reading.
func (a answer) failed() bool { return a.Status == "failed" || a.Status == "errored" }

// New returns a collector, which has asked nothing.
func New(o Options) *Collector {
	c := &Collector{o: o, builds: map[int]*build{}}
	c.earn(time.Minute)
	return c
}

// errSpent ends a round that has used its requests.
var errSpent = errors.New("no requests are left in this minute")

// earn adds the requests of a time, up to those of a minute and at least one of each kind.
func (c *Collector) earn(d time.Duration) {
	minute := float64(c.o.PerMinute)
	more := minute * max(0, d.Seconds()) / minuteParts
	c.tokens = min(c.tokens+more, minute)
	c.lists = min(c.lists+more*listPart, max(1, minute*listPart))
	c.running = min(c.running+more*runningPart, max(1, minute*runningPart))
}

// Round asks for new builds, as far as the requests of the time since the last round allow.
// It reports whether Runs changed.
func (c *Collector) Round(ctx context.Context) (changed bool, err error) {
	now := c.o.Now()
	if !c.at.IsZero() {
		c.earn(now.Sub(c.at))
	}
	c.at = now
	changed, err = c.round(ctx)
	if errors.Is(err, errSpent) {
		err = nil
	}
	if err != nil && (c.err == nil || c.err.Error() != err.Error()) && ctx.Err() == nil {
		c.o.Logs.Printf("cannot read builds: %v", err)
	}
	c.err = err
	return changed, err
}

func (c *Collector) round(ctx context.Context) (changed bool, err error) {
	if err := c.list(ctx); err != nil {
		return false, err
	}
	if err := c.finish(ctx); err != nil {
		return false, err
	}
	c.forget()
	failures := 0
	for _, b := range c.unread() {
		if c.tokens < perBuild {
			return changed, errSpent
		}
		// One build may be unreadable. Several are an outage.
		if err := c.read(ctx, b); err == nil {
			changed = true
		} else if failures++; failures == maxErrors || ctx.Err() != nil {
			return changed, err
		}
	}
	// Older builds come after the tasks of newer ones.
	return changed, c.fill(ctx)
}

// ask sends a request with a deadline, if one is left.
func (c *Collector) ask(ctx context.Context, path string, most int64, decode func(io.Reader) error) error {
	if c.tokens < 1 {
		return errSpent
	}
	c.tokens--
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return request(ctx, c.o.Get, path, most, decode)
}

// request passes the bounded body of an answer to decode.
func request(ctx context.Context, get Get, path string, most int64, decode func(io.Reader) error) error {
	body, err := get(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	limited := &io.LimitedReader{R: body, N: most}
	if err := decode(limited); err != nil {
		if limited.N <= 0 {
			err = errTooLong
		}
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	return nil
}

// errTooLong reports an answer beyond its bound, which stays so.
var errTooLong = errors.New("the answer is too long")

// into returns a function that decodes JSON. Its error never quotes an answer.
func into(v any) func(io.Reader) error {
	return func(r io.Reader) error {
		if json.NewDecoder(r).Decode(v) != nil {
			return errors.New("the answer is not the JSON of Concourse")
		}
		return nil
	}
}

// forget removes the oldest builds, and the tasks of the oldest builds beyond maxMemory. Runs
// of a task with equal passed tests get the same list in memory, which is counted once.
func (c *Collector) forget() {
	passed := map[flake.Key][]uint32{}
	c.used = 0
	full := false
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(c.builds))) {
		b := c.builds[id]
		size := 0
		for _, r := range b.tasks {
			if size += sizeOf(r); r.Tests == nil {
				continue
			}
			if last := passed[r.Key]; slices.Equal(last, r.Tests.Passed) {
				r.Tests.Passed = last
			} else {
				passed[r.Key] = r.Tests.Passed
				size += 4 * len(r.Tests.Passed)
			}
		}
		if full = full || c.used+size > maxMemory; full {
			b.tasks = nil
			continue
		}
		c.used += size
	}
	maps.DeleteFunc(c.builds, func(_ int, b *build) bool { return c.old(b.answer) })
	if more := len(c.builds) - maxBuilds; more > 0 {
		for _, id := range slices.Sorted(maps.Keys(c.builds))[:more] {
			delete(c.builds, id)
		}
	}
}

// sizeOf returns the memory of a run without its passed tests, about.
func sizeOf(r flake.Run) int {
	n := 300 + len(r.Step)
	if r.Tests != nil {
		for _, name := range r.Tests.Failed {
			n += 16 + len(name)
		}
	}
	return n
}

// unread returns finished builds with unknown tasks, newest first, of jobs that fail at
// times. Other jobs have no flakes, so nothing is asked for them.
func (c *Collector) unread() (out []*build) {
	fails := map[flake.Key]bool{}
	for _, b := range c.builds {
		fails[b.key] = fails[b.key] || b.failed()
	}
	for _, b := range c.builds {
		if !b.read && fails[b.key] && (b.failed() || b.Status == "succeeded") {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *build) int { return cmp.Compare(b.ID, a.ID) })
	return out
}

// read asks for the tasks of a build. A build that fails too often is left out.
func (c *Collector) read(ctx context.Context, b *build) error {
	runs, err := c.tasks(ctx, b)
	if ctx.Err() != nil {
		return ctx.Err() // not a failed try
	}
	if err == nil {
		err = c.keep(b, runs)
	}
	if err != nil {
		if b.tries++; b.tries >= maxTries || errors.Is(err, errTooLong) {
			b.read = true
		}
	}
	return err
}

// keep stores the tasks of a build, and forgets older ones beyond maxMemory. It refuses a build
// with more than buildMemory, because it would be stored in place of all others.
func (c *Collector) keep(b *build, runs []flake.Run) error {
	size := 0
	for _, r := range runs {
		if size += sizeOf(r); r.Tests != nil {
			size += 4 * len(r.Tests.Passed)
		}
	}
	if size > buildMemory {
		return fmt.Errorf("the tests of build %d: %w", b.ID, errTooLong)
	}
	b.tasks, b.read = runs, true
	if c.used += size; c.used > maxMemory {
		c.forget()
	}
	return nil
}

// Runs returns the runs of tasks in all builds.
func (c *Collector) Runs() (out []flake.Run) {
	for _, id := range slices.Sorted(maps.Keys(c.builds)) {
		out = append(out, c.builds[id].tasks...)
	}
	return out
}

// Progress describes how much is known.
type Progress struct {
	Builds int // of jobs
	Unread int // builds to ask for
}

// Progress returns the numbers of builds.
func (c *Collector) Progress() Progress { return Progress{len(c.builds), len(c.unread())} }
