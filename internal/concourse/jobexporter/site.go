package jobexporter

import (
	"context"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
)

// Pages adds pages to the program. They show Concourse's last answer together with data
// from other sources, which this package may not import.
type Pages interface {
	// Flags declares the flags of the pages.
	Flags(*pflag.FlagSet)
	// URLs returns the URLs that lead to the pages.
	URLs() []string
	// Start adds the pages to mux and starts their work, which ends with stop. It returns a
	// channel that is closed then.
	Start(stop context.Context, s Surroundings, mux *http.ServeMux) <-chan struct{}
}

// Surroundings holds the parts of the program that pages need.
type Surroundings struct {
	Site    func() Site               // returns Concourse's last answer
	Get     Get                       // reads Concourse's API
	Show    func([]prometheus.Metric) // replaces the metrics of the pages
	Every   time.Duration             // between two polls
	Version string
	Folder  string // of files that survive a restart; "": none
	Logs    *log.Logger
}

// Get requests a path of Concourse's API and returns the body, which the caller bounds and
// closes. It is for one goroutine.
type Get func(ctx context.Context, path string) (io.ReadCloser, error)

// Site holds the builds of task containers and the workers of Concourse's last answer. It
// is empty if the answer is too old.
type Site struct {
	Time    time.Time        // of the answer; zero: none
	Problem string           // public reason of the last poll's failure, "" after a success
	Builds  map[string]Build // by the handle of a task's container
	Workers []Worker
	Started []Started
}

// Build identifies the build and the step of a task's container. A build of fly execute has
// no pipeline and no job.
type Build struct {
	Team, Pipeline, Job, Name, Step string
	ID                              int // number in the URL of its page
	Worker                          string
}

// Started describes a started build of a job. Concourse keeps containers of ended tasks
// until the end of their build.
type Started struct {
	Build
	Task bool // it has a container of a task
}

// Worker describes a worker as Concourse lists it.
type Worker struct {
	Name, State, Platform, Team string // Team is "" for a worker of all teams
	Tags                        []string
}

// maxTags is far above the tags of any worker.
const maxTags = 256

// add adds a worker. Workers with an impossible name or too many tags are left out.
func (s *Site) add(w worker) {
	if len(w.Name) > maxName || len(w.Team) > maxName || len(w.Tags) > maxTags || w.Name == "" {
		return
	}
	s.Workers = append(s.Workers, Worker{w.Name, w.State, w.Platform, w.Team, w.Tags})
}

// mark marks the builds with a container that was listed at a time.
func (t tasks) mark(started []Started, at time.Time) []Started {
	has := map[int]bool{}
	for _, one := range t {
		has[one.buildID] = has[one.buildID] || one.seen.Equal(at)
	}
	for i := range started {
		started[i].Task = has[started[i].ID]
	}
	return started
}

// builds returns the builds of all containers.
func (t tasks) builds() map[string]Build {
	out := make(map[string]Build, len(t))
	for handle, one := range t {
		out[handle] = Build{one.team, one.pipeline, one.job, one.build, one.step, one.buildID, one.worker}
	}
	return out
}

// Show replaces the metrics of the pages.
func (p *Poller) Show(metrics []prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages = metrics
}

// Site returns the last answer, which the caller must not change.
func (p *Poller) Site() Site {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Site{}
	if p.fresh(p.o.Now()) {
		s = p.site
		s.Time = p.success
	}
	switch {
	case !p.polled:
		s.Problem = "Concourse has not been asked yet"
	case p.err != nil:
		s.Problem = reasons[kind(p.err)]
	}
	return s
}
