package jobexporter

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/webclient"
)

// Options holds the settings of a Poller.
type Options struct {
	CredentialsFile string
	Timeout         time.Duration // of one poll, including the login
	RequiredArchs   []string      // architectures for which workers are counted
	Keep            time.Duration // maximum age of a shown answer
	Site            bool          // keep the answer for Poller.Site
	Version         string
	Logs            *log.Logger
	Now             func() time.Time
}

// Poller polls Concourse and exports its last answer as a Prometheus collector. Poll is for
// one goroutine, and the rest for any.
type Poller struct {
	o Options
	session
	streaks streaks // of the last answer
	tasks   tasks

	mu      sync.Mutex
	answer  []prometheus.Metric // never changed, only replaced
	site    Site                // of the last answer
	pages   []prometheus.Metric // of the pages
	success time.Time           // zero: never
	took    time.Duration
	err     error // of the last poll
	polled  bool
	count   map[result]int
}

// NewPoller returns a Poller. It sends no request.
func NewPoller(o Options) *Poller {
	return &Poller{o: o, session: session{path: o.CredentialsFile, now: o.Now}, tasks: tasks{}, count: map[result]int{}}
}

// Poll sends one round of requests: for the teams, pipelines, jobs and containers of tasks
// that the user may see, and for workers if they are counted. Ready returns its error until
// the next call. nil means success.
func (p *Poller) Poll(stop context.Context) error {
	started := p.o.Now()
	ctx, cancel := context.WithTimeout(stop, p.o.Timeout)
	defer cancel()
	answer, site, err := p.ask(ctx)
	if err != nil && stop.Err() != nil {
		return err // the end of the program is not an outage
	}
	now := p.o.Now()

	p.mu.Lock()
	defer p.mu.Unlock()
	p.took = now.Sub(started)
	p.logChange(err)
	p.err, p.polled = err, true
	if err == nil {
		p.answer, p.success, p.site = answer, now, site
		p.count[resultOK]++
		return nil
	}
	p.count[kind(err)]++
	if !p.fresh(now) {
		p.answer, p.site = nil, Site{} // free their memory
	}
	return err
}

// logChange logs only changes, so an outage has two log lines, not two a minute.
func (p *Poller) logChange(err error) {
	switch {
	case err != nil && (p.err == nil || p.err.Error() != err.Error()):
		p.o.Logs.Print(err)
	case err == nil && (p.err != nil || !p.polled):
		p.o.Logs.Printf("Concourse answers at %s", p.client.Credentials.URL)
	}
}

// Reload makes the next Poll log in again, also if the credentials were just refused. Like
// Poll it is for one goroutine.
func (p *Poller) Reload() { p.drop() }

func (p *Poller) ask(ctx context.Context) ([]prometheus.Metric, Site, error) {
	if err := p.load(); err != nil {
		return nil, Site{}, err
	}
	var found []string
	if err := list(ctx, p.client, "/api/v1/teams", func(t team) { found = append(found, t.Name) }); err != nil {
		return nil, Site{}, err
	}
	if len(found) == 0 {
		// Concourse would answer with public pipelines only, as if all others had been
		// removed.
		return nil, Site{}, noTeamError{p.client.Credentials}
	}
	v := newView(p.streaks)
	if err := list(ctx, p.client, "/api/v1/pipelines", v.addPipeline); err != nil {
		return nil, Site{}, err
	}
	if err := list(ctx, p.client, "/api/v1/jobs", v.addJob); err != nil {
		return nil, Site{}, err
	}
	var site Site
	if len(p.o.RequiredArchs) > 0 || p.o.Site {
		n := archWorkers{}
		for _, arch := range p.o.RequiredArchs {
			n[arch] = 0 // show architectures without workers too
		}
		if err := list(ctx, p.client, "/api/v1/workers", func(w worker) {
			n.add(w)
			site.add(w)
		}); err != nil {
			return nil, Site{}, err
		}
		for arch, workers := range n {
			v.put(requiredArch, float64(workers), arch)
		}
	}
	now := p.o.Now()
	for _, team := range found {
		if err := list(ctx, p.client, containersOf(team),
			func(c container) { p.tasks.put(v, team, c, now) }); err != nil {
			return nil, Site{}, err
		}
	}
	p.tasks.show(v, now)
	p.streaks = v.streaks
	if p.o.Site {
		site.Builds, site.Started = p.tasks.builds(), p.tasks.mark(v.started, now)
	}
	return v.finish(len(found)), site, nil
}

// list requests a list of the API and passes its elements to each.
func list[T any](ctx context.Context, c *webclient.Client, path string, each func(T)) error {
	return webclient.List(ctx, c, webclient.Request{Path: path}, each)
}

// fresh reports whether the answer may still be shown.
func (p *Poller) fresh(now time.Time) bool {
	return !p.success.IsZero() && (p.err == nil || now.Sub(p.success) <= p.o.Keep)
}

// reasons are the public texts of a failure. The log has the full text, with the names of
// users and files.
var reasons = map[result]string{
	resultCredentials:     "the credentials file cannot be used",
	webclient.Login:       "Concourse refuses the login",
	webclient.Refused:     "Concourse refuses the request",
	webclient.Failing:     "Concourse failed at the request, usually without a database",
	webclient.Unreachable: "Concourse does not answer",
	webclient.Answer:      "Concourse's answer cannot be read",
}

// Ready returns nil while Concourse answers, otherwise the reason.
func (p *Poller) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.polled:
		return errors.New("Concourse has not been asked yet")
	case p.err != nil:
		return errors.New(reasons[kind(p.err)] + "; see the exporter's log")
	}
	return nil
}

// result names the result of a poll, as in the label result: a kind of failed call, or one of
// these.
type result = webclient.Kind

const (
	resultOK          result = "ok"
	resultCredentials result = "credentials" // the file cannot be used
)

// noTeamError reports a user without a team.
type noTeamError struct{ login.Credentials }

func (e noTeamError) Error() string {
	return fmt.Sprintf("cannot see any team: %s is in none of %s", e.Username, e.URL)
}

// kind returns the result of a failed poll.
func kind(err error) result {
	var noTeam noTeamError
	switch e, ok := errors.AsType[*webclient.CallError](err); {
	case ok:
		return e.Kind
	case errors.As(err, &noTeam):
		return webclient.Refused
	}
	return resultCredentials
}

// Describe implements prometheus.Collector.
func (p *Poller) Describe(to chan<- *prometheus.Desc) {
	for _, f := range Families() {
		to <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (p *Poller) Collect(to chan<- prometheus.Metric) {
	for _, m := range p.metrics() {
		to <- m
	}
}

func (p *Poller) metrics() []prometheus.Metric {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []prometheus.Metric{
		metric(exporterInfo, 1, p.o.Version),
		metric(up, truth(p.polled && p.err == nil)),
	}
	if !p.success.IsZero() {
		out = append(out, metric(lastSuccess, seconds(p.success)))
	}
	if p.polled {
		out = append(out, metric(pollDuration, p.took.Seconds()))
	}
	for _, r := range results {
		out = append(out, metric(polls, float64(p.count[r]), string(r)))
	}
	if p.fresh(p.o.Now()) {
		out = append(out, p.answer...)
	}
	return append(out, p.pages...)
}
