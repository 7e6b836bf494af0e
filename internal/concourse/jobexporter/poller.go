package jobexporter

import (
	"bytes"
	"context"
	"log"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"concourse-ci-machine/internal/concourse/jobexporter/login"
)

// Options are the settings of a Poller.
type Options struct {
	CredentialsFile string
	Timeout         time.Duration // of one poll, login included
	RequiredArchs   []string      // of which workers are counted
	Keep            time.Duration // how long an answer is shown that no other has replaced
	Version         string
	Logs            *log.Logger
	Now             func() time.Time
}

// Poller asks Concourse and keeps its last answer, which it has as a Prometheus
// collector. Poll is for one goroutine; the rest for any.
type Poller struct {
	o       Options
	file    []byte // content that client was made of
	ca      []byte
	client  *client
	streaks streaks // of the last answer
	tasks   tasks

	mu      sync.Mutex
	answer  []prometheus.Metric // never changed, only replaced
	success time.Time           // zero: never
	took    time.Duration
	err     error // of the last poll
	polled  bool
	count   map[result]int
}

// NewPoller has asked nothing yet.
func NewPoller(o Options) *Poller {
	return &Poller{o: o, tasks: tasks{}, count: map[result]int{}}
}

// Poll asks once: for the teams, pipelines, jobs and containers of tasks that the user
// may see, and for workers where they are to be counted. Its error is the one that Ready
// has from then on; nil is an answer.
func (p *Poller) Poll(stop context.Context) error {
	started := p.o.Now()
	ctx, cancel := context.WithTimeout(stop, p.o.Timeout)
	defer cancel()
	answer, err := p.ask(ctx)
	if err != nil && stop.Err() != nil {
		return err // the end of the program is no outage
	}
	now := p.o.Now()

	p.mu.Lock()
	defer p.mu.Unlock()
	p.took = now.Sub(started)
	p.tell(err)
	p.err, p.polled = err, true
	if err == nil {
		p.answer, p.success = answer, now
		p.count[resultOK]++
		return nil
	}
	p.count[kind(err)]++
	if !p.fresh(now) {
		p.answer = nil // its memory is of use to nobody
	}
	return err
}

// tell logs what is new: an outage has two lines, not two a minute.
func (p *Poller) tell(err error) {
	switch {
	case err != nil && (p.err == nil || p.err.Error() != err.Error()):
		p.o.Logs.Print(err)
	case err == nil && (p.err != nil || !p.polled):
		p.o.Logs.Printf("Concourse answers at %s", p.client.credentials.URL)
	}
}

// Reload makes the next Poll log in anew, at once also where the credentials
// have just been refused. Like Poll it is for one goroutine.
func (p *Poller) Reload() { p.drop() }

func (p *Poller) drop() {
	if p.client != nil {
		p.client.close()
		p.client = nil
	}
}

// load reads the credentials file; where it or its ca-file says something new,
// there is a new client. Reading what it says each time misses no change, as
// looking at its time could.
func (p *Poller) load() error {
	data, err := readSecret(p.o.CredentialsFile)
	if err != nil {
		return fail(resultCredentials, "cannot use credentials file %s: %w", p.o.CredentialsFile, err)
	}
	c, err := login.Parse(data)
	if err != nil {
		return fail(resultCredentials, "cannot use credentials file %s: %w", p.o.CredentialsFile, err)
	}
	var ca []byte
	if c.CAFile != "" {
		if ca, err = readCA(c.CAFile); err != nil {
			return fail(resultCredentials, "cannot use ca-file %s: %w", c.CAFile, err)
		}
	}
	if p.client != nil && bytes.Equal(data, p.file) && bytes.Equal(ca, p.ca) {
		return nil
	}
	p.drop()
	p.client, err = newClient(c, ca, p.o.Now)
	if err != nil {
		p.client = nil
		return &failure{resultCredentials, err}
	}
	p.file, p.ca = data, ca
	return nil
}

func (p *Poller) ask(ctx context.Context) ([]prometheus.Metric, error) {
	if err := p.load(); err != nil {
		p.drop() // old credentials are not used once theirs are gone
		return nil, err
	}
	var found []string
	if err := list(ctx, p.client, "/api/v1/teams", func(t team) { found = append(found, t.Name) }); err != nil {
		return nil, err
	}
	if len(found) == 0 {
		// Concourse would answer with public pipelines alone, as if all else
		// had been removed.
		return nil, fail(resultRefused, "cannot see any team: %s is in none of %s", p.client.credentials.Username, p.client.credentials.URL)
	}
	v := newView(p.streaks)
	if err := list(ctx, p.client, "/api/v1/pipelines", v.addPipeline); err != nil {
		return nil, err
	}
	if err := list(ctx, p.client, "/api/v1/jobs", v.addJob); err != nil {
		return nil, err
	}
	if len(p.o.RequiredArchs) > 0 {
		n := archWorkers{}
		for _, arch := range p.o.RequiredArchs {
			n[arch] = 0 // one that nobody has is told, too
		}
		if err := list(ctx, p.client, "/api/v1/workers", n.add); err != nil {
			return nil, err
		}
		v.addArchs(n)
	}
	now := p.o.Now()
	for _, team := range found {
		if err := list(ctx, p.client, containersOf(team), func(c container) { p.tasks.put(v, team, c, now) }); err != nil {
			return nil, err
		}
	}
	p.tasks.show(v, now)
	p.streaks = v.streaks
	return v.finish(len(found)), nil
}

// fresh reports whether the answer may still be shown.
func (p *Poller) fresh(now time.Time) bool {
	return !p.success.IsZero() && (p.err == nil || now.Sub(p.success) <= p.o.Keep)
}
