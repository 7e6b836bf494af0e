// Package flakes serves the flaky tasks and tests of a Concourse as a page and as JSON. It is
// a part of the program concourse-exporter, on each web.
//
// It joins the builds of Concourse with the verdicts of the workers and with the GPUs that
// the fleet page saw in use. Answers of workers are outside input, which the package checks
// and bounds. Everything is only in memory: it writes no file and keeps no output of tasks.
package flakes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/builds"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/flakereport"
)

// defaultRequests is the default number of requests to Concourse in a minute.
const defaultRequests = 60

const maxRequests = 6000

// Options holds the parts of the program that the package needs.
type Options struct {
	jobexporter.Surroundings
	Style string // relative URL of the style sheet
	Now   func() time.Time
	// Ask requests URLs of workers in parallel and passes the body of answer i to read. The
	// errors are in the order of the URLs.
	Ask func(ctx context.Context, urls []string, read func(i int, body io.Reader) error) []error
}

// Flakes holds the last report. Round is for one goroutine, and the rest for any.
type Flakes struct {
	perMinute int
	o         Options
	collector *builds.Collector
	joiner    *joiner
	silent    map[string]time.Time // workers not to ask until then, by URL

	mu     sync.Mutex
	seen   *Seen               // nil: the fleet is not known yet
	cancel context.CancelFunc  // ends the reading of a round
	report *flakereport.Report // never changed, only replaced
	// verdicts has the answer for each container of a known build, by handle.
	verdicts map[string]Answer
}

// Flags declares the flags of the page.
func (f *Flakes) Flags(fs *pflag.FlagSet) {
	f.perMinute = defaultRequests
	fs.Func("flakes.requests", fmt.Sprintf("greatest `number` of requests to Concourse in a minute for the page of flakes "+
		"(default %d); 0: no page", defaultRequests), func(s string) error {
		n := 0
		if _, err := fmt.Sscanf(s, "%d", &n); err != nil || fmt.Sprint(n) != s ||
			n != 0 && (n < builds.MinPerMinute || n > maxRequests) {
			return fmt.Errorf("want 0 or a number from %d to %d", builds.MinPerMinute, maxRequests)
		}
		f.perMinute = n
		return nil
	})
}

// On reports whether the flags turn the page on.
func (f *Flakes) On() bool { return f.perMinute > 0 }

// Prepare adds the pages, which show that nothing has been asked yet.
func (f *Flakes) Prepare(o Options, mux *http.ServeMux) {
	f.o, f.joiner, f.silent = o, newJoiner(), map[string]time.Time{}
	f.collector = builds.New(builds.Options{Get: o.Get, Reference: jobexporter.Reference, PerMinute: f.perMinute,
		Logs: o.Logs, Now: o.Now})
	f.report = flakereport.Empty(o.Version, o.Now(), "Concourse has not been asked for builds yet")
	f.handle(mux)
}

// Repeat does a round at once and at each interval, until stop.
func Repeat(stop context.Context, every time.Duration, round func(context.Context)) {
	for tick := time.Tick(every); ; {
		round(stop)
		select {
		case <-stop.Done():
			return
		case <-tick:
		}
	}
}

// See takes the fleet as the last round saw it. If names are hidden, it removes them from the
// report and ends a round that reads them.
func (f *Flakes) See(s Seen) {
	if !f.On() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = &s
	if !s.HideNames {
		return
	}
	f.report = flakereport.Empty(f.o.Version, f.o.Now(), "fleet-page=anonymous hides the names of jobs and tests")
	f.report.Concourse = s.Concourse
	if f.cancel != nil {
		f.cancel()
	}
}

// begin returns the fleet and a context that See cancels. The fleet is nil if it is unknown
// whether names are hidden.
func (f *Flakes) begin(stop context.Context) (context.Context, *Seen) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx, cancel := context.WithCancel(stop)
	f.cancel = cancel
	return ctx, f.seen
}

// Round asks the workers for verdicts and Concourse for builds, and replaces the report. It
// asks Concourse for nothing while names are hidden.
func (f *Flakes) Round(stop context.Context) {
	ctx, fleet := f.begin(stop)
	defer f.cancel()
	if fleet == nil {
		return
	}
	seen := *fleet
	f.joiner.see(seen, f.o.Site())
	f.askWorkers(stop, seen.Workers)
	f.mu.Lock()
	f.verdicts = f.joiner.answers()
	f.mu.Unlock()
	if seen.HideNames {
		f.o.Show(nil)
		return
	}
	changed, err := f.collector.Round(ctx)
	if ctx.Err() != nil {
		return
	}
	last := f.Report()
	if !changed && !f.joiner.changed && err == nil && last.Problem == "" && last.Concourse == seen.Concourse {
		return
	}
	f.joiner.changed = false
	problem := ""
	if err != nil {
		problem = "Concourse's builds cannot be read now; see the exporter's log"
	}
	r, metrics := f.make(seen, problem)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen.HideNames {
		return
	}
	f.o.Show(metrics)
	f.report = r
}

// make returns the report of all known builds, and its metrics.
func (f *Flakes) make(seen Seen, problem string) (*flakereport.Report, []prometheus.Metric) {
	r := flakereport.Empty(f.o.Version, f.o.Now(), problem)
	r.Concourse = seen.Concourse
	progress := f.collector.Progress()
	runs := f.joiner.join(f.collector.Runs())
	found := flake.Find(runs)
	r.Builds, r.Unread, r.Runs = progress.Builds, progress.Unread, len(runs)
	names := flakereport.Names{}
	for _, w := range seen.Workers {
		for _, g := range w.GPUs {
			names[[2]string{w.Name, g.PCI}] = g.Index
		}
	}
	r.Add(found, names)
	return r, metricsOf(found)
}

// metricsOf counts findings. Each kind and each cause has a number.
func metricsOf(found flake.Report) []prometheus.Metric {
	kinds, causes := map[string]int{}, map[string]int{}
	for kind := range fails {
		kinds[string(kind)] = 0
	}
	for _, cause := range []flake.Cause{flake.ByGPU, flake.ByMachine, flake.ByNeighbour, flake.ByConcourse} {
		causes[string(cause)] = 0
	}
	for _, f := range found.Flakes {
		kinds[string(f.Kind)]++
	}
	for _, l := range found.Lost {
		causes[string(l.Cause)]++
	}
	return jobexporter.FlakeMetrics(kinds, causes)
}

// Report returns the last report, which the caller must not change.
func (f *Flakes) Report() *flakereport.Report {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.report
}
