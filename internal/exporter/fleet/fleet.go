// Package fleet serves the GPUs of all workers of a Concourse on one page and as JSON. It
// is a part of the program concourse-exporter, on each web.
//
// It asks the workers' exporters in the background, and answers requests from the last
// answers only. A worker's answer is outside input, which package fleet checks and bounds.
// Its histories have a fixed size. It writes only their file, starts no program and has no
// password.
package fleet

import (
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/flakes"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
)

// Fleet implements jobexporter.Pages.
type Fleet struct {
	path   string // of the file of workers; "": no page
	now    func() time.Time
	flakes flakes.Flakes

	site    func() jobexporter.Site
	every   time.Duration
	version string
	logs    *log.Logger
	asker   *asker
	file    fleetfile.File
	problem string // of the file
	answers map[string]seen
	since   map[group]time.Time // at which steps were first seen to wait
	history history
	day     day
	before  time.Time // of the last round

	folder      string // of the histories; "": only in memory
	keptAt      time.Time
	keepProblem string

	mu     sync.Mutex
	report *Report  // never changed, only replaced
	urls   []string // of the last file
}

// New returns the page, which asks nothing before Start.
func New() *Fleet { return &Fleet{now: time.Now, asker: newAsker(), answers: map[string]seen{}} }

// Flags implements jobexporter.Pages.
func (f *Fleet) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&f.path, "fleet.file", "",
		"`file` with the workers to show on a page at /, read before each poll; empty: no page")
	f.flakes.Flags(fs)
}

// Start implements jobexporter.Pages.
func (f *Fleet) Start(stop context.Context, s jobexporter.Surroundings, mux *http.ServeMux) <-chan struct{} {
	ended := make(chan struct{})
	if f.path == "" {
		close(ended)
		return ended
	}
	f.prepare(s, mux)
	go func() {
		defer close(ended)
		flakes.Repeat(stop, f.every, f.Round)
		f.saveHistories(f.now())
	}()
	if f.flakes.On() {
		go flakes.Repeat(stop, f.every, f.flakes.Round)
	}
	return ended
}

// prepare adds the pages, which show that no worker has been asked yet.
func (f *Fleet) prepare(s jobexporter.Surroundings, mux *http.ServeMux) {
	f.site, f.every, f.version, f.logs, f.folder = s.Site, s.Every, s.Version, s.Logs, s.Folder
	f.recall()
	now := f.now().UTC().Truncate(time.Second)
	f.report = &Report{Version: f.version, Time: now, Workers: []Worker{}, Waiting: []Waiting{},
		Coverage: []Covered{}, Starts: []Start{}, Today: Today{Since: now, Teams: []TeamUsage{}},
		History: f.history.report(),
		Problem: "no worker has been asked yet"}
	pages := metricsserver.NewMux("concourse-exporter")
	f.handle(pages)
	if f.flakes.On() {
		style, _ := asset("page.css") // embedded: a test reads it
		f.flakes.Prepare(flakes.Options{Surroundings: s, Style: style, Now: f.now, Ask: f.asker.each}, pages)
	}
	mux.Handle("/", pages)
	// Without /metrics, which has the names of jobs also if the pages hide them.
	mux.Handle(wellknown.FleetPath+"/", http.StripPrefix(wellknown.FleetPath, pages))
}

// Round reads the file, asks all workers and replaces the report. It is for one goroutine.
func (f *Fleet) Round(stop context.Context) {
	f.read()
	ctx, cancel := context.WithTimeout(stop, max(f.every, api.Timeout))
	defer cancel()
	answers := f.asker.gpus(ctx, f.file.Workers, f.answers)
	waiting, err := f.asker.waiting(ctx, f.file.Metrics)
	if err != nil {
		waiting = nil
	}
	if stop.Err() != nil {
		return
	}
	now := f.now()
	current := map[string]seen{}
	for i, w := range f.file.Workers {
		if !w.Watched() {
			continue
		}
		one := f.answers[w.URL]
		if one.err = answers[i].err; one.err == nil {
			one.gpus, one.at = answers[i].gpus, now
		}
		current[w.URL] = one
	}
	f.answers = current
	f.keepWaiting(waiting, now)
	r := observed{at: now, file: f.file, site: f.site(), answers: f.answers, waiting: waiting, since: f.since}.report()
	r.Version, r.Problem, r.flakes = f.version, f.problem, f.flakes.On()
	if f.problem == "" { // otherwise it is unknown whether names are hidden
		f.flakes.See(r.seen(f.file))
	}
	f.addToHistories(r, now)
	r.Today, r.History = f.day.report(), f.history.report()
	if f.file.HideNames {
		r.hide()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.report = &r
	f.urls = []string{f.file.Page, f.file.Concourse}
}

// URLs implements jobexporter.Pages. The page may be at a proxy, also beside Concourse.
func (f *Fleet) URLs() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.urls
}

// keepWaiting keeps the time at which each group of steps began to wait. If the waiting steps
// are unknown, it changes nothing.
func (f *Fleet) keepWaiting(waiting map[group]int, now time.Time) {
	if waiting == nil {
		return
	}
	since := map[group]time.Time{}
	for g := range waiting {
		if since[g] = now; !f.since[g].IsZero() {
			since[g] = f.since[g]
		}
	}
	f.since = since
}

// seen returns the workers with the containers on their GPUs.
func (r *Report) seen(file fleetfile.File) flakes.Seen {
	out := flakes.Seen{Concourse: file.Concourse, HideNames: file.HideNames}
	urls := map[string]string{} // also of workers without GPUs, which record tasks
	for _, w := range file.Workers {
		urls[name(w.Unit)] = w.URL
	}
	for _, w := range r.Workers {
		one := flakes.Worker{Name: w.Worker, URL: urls[w.Unit]}
		for _, g := range w.GPUs {
			gpu := flakes.GPU{Index: g.Index, PCI: g.PCI}
			for _, h := range g.Holders {
				gpu.Holders = append(gpu.Holders, h.Container)
			}
			one.GPUs = append(one.GPUs, gpu)
		}
		out.Workers = append(out.Workers, one)
	}
	return out
}

// addToHistories adds a round to the histories. A pause, such as of a suspended machine, counts as
// two rounds at most.
func (f *Fleet) addToHistories(r Report, now time.Time) {
	f.day.start(now)
	if took := now.Sub(f.before); !f.before.IsZero() && took > 0 {
		f.day.add(r.Workers, min(took, 2*max(f.every, time.Second)))
	}
	f.before = now
	values := [allSeries]float64{loadSeries: math.NaN(), gpuSeries: float64(r.Summary.GPUs),
		freeSeries: float64(r.Summary.Free), waitingSeries: math.NaN()}
	if r.Summary.measured > 0 {
		values[loadSeries] = r.Summary.Load
	}
	if r.Summary.Waiting != nil {
		values[waitingSeries] = float64(*r.Summary.Waiting)
	}
	f.history.add(now, values)
	if now.Sub(f.keptAt) >= keepEvery || now.Before(f.keptAt) {
		f.saveHistories(now)
	}
}

// read reads the file of workers. With an invalid file the previous workers stay, and the
// page shows the problem.
func (f *Fleet) read() {
	file, err := readFile(f.path)
	if err == nil {
		f.file, f.problem = file, ""
		return
	}
	if text := fmt.Sprintf("cannot read the list of workers: %v", err); text != f.problem {
		f.problem = text
		f.logs.Print(text)
	}
}

func readFile(path string) (fleetfile.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return fleetfile.File{}, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, fleetfile.MaxSize+1))
	if err != nil {
		return fleetfile.File{}, err
	}
	return fleetfile.Parse(data)
}

// Report returns the last report, which the caller must not change.
func (f *Fleet) Report() *Report {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.report
}
