// Package flakereport has the JSON of flaky tasks and tests, with sentences for people. The
// exporter of a web serves it and the charm's command reads it. The package asks nothing and
// serves nothing.
package flakereport

import (
	"cmp"
	"fmt"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
)

// Bounds of the report.
const (
	maxFlakes = 500
	maxLost   = 200
)

// Report is the answer of /api/v1/flakes. schema.json of package flakes describes it.
type Report struct {
	Time      time.Time `json:"time"`
	Version   string    `json:"version"`
	Concourse string    `json:"concourse,omitempty"` // URL for users
	Problem   string    `json:"problem,omitempty"`   // why the report is old or empty
	Builds    int       `json:"builds"`              // of jobs, that Concourse lists
	Unread    int       `json:"unread_builds"`       // of jobs that fail at times, still to be read
	Runs      int       `json:"runs"`                // of tasks
	Flakes    []Flake   `json:"flakes"`              // most failures first
	Places    []Place   `json:"places"`              // on which several tasks fail
	Lost      []Lost    `json:"infrastructure"`      // runs that infrastructure ended, newest first
}

// Flake is a flaky task or test.
type Flake struct {
	flake.Flake
	Sentence string `json:"sentence"` // for people
}

// Place is a GPU or worker on which tasks fail more than on others.
type Place struct {
	flake.Place
	Sentence string `json:"sentence"`
}

// Lost is a failed run of which infrastructure is the cause.
type Lost struct {
	flake.Lost
	Sentence string `json:"sentence"`
}

// Empty returns a report without findings.
func Empty(version string, now time.Time, problem string) *Report {
	return &Report{Version: version, Time: now.UTC().Truncate(time.Second), Problem: problem, Flakes: []Flake{},
		Places: []Place{}, Lost: []Lost{}}
}

// Add adds findings up to the bounds.
func (r *Report) Add(found flake.Report, n Names) {
	for _, f := range found.Flakes[:min(len(found.Flakes), maxFlakes)] {
		r.Flakes = append(r.Flakes, Flake{f, n.flake(f)})
	}
	for _, p := range found.Places {
		r.Places = append(r.Places, Place{p, fmt.Sprintf("%s fail on %s", units.Count(p.Tasks, "task"), n.place(p))})
	}
	for _, l := range found.Lost[:min(len(found.Lost), maxLost)] {
		r.Lost = append(r.Lost, Lost{l, Sentence(l.Cause, l.Reason)})
	}
}

// Sentence returns the sentence about a run that infrastructure ended.
func Sentence(cause flake.Cause, reason string) string {
	return fmt.Sprintf("failed by infrastructure, run again (%s: %s)", cause, cmp.Or(reason, "no reason given"))
}

// Names has the numbers of GPUs by worker and PCI address.
type Names map[[2]string]int

// gpu returns a GPU as people name it.
func (n Names) gpu(worker, pci string) string {
	if index, known := n[[2]string{worker, pci}]; known {
		return fmt.Sprintf("GPU %d (%s)", index, pci)
	}
	return "GPU " + pci
}

// place returns the sentence about a place.
func (n Names) place(p flake.Place) string {
	on, others := "worker "+p.Worker, "other workers"
	if p.GPU != "" {
		on, others = n.gpu(p.Worker, p.GPU)+" of worker "+p.Worker, "others"
	}
	return fmt.Sprintf("%s in %d of %s and on %s in %d of %d", on, p.Failures, units.Count(p.Runs, "run"), others,
		p.OthersFail, p.OthersRuns)
}

// flake returns the sentence about a flake.
func (n Names) flake(f flake.Flake) string {
	what := "this task"
	if f.Test != "" {
		what = "this test"
	}
	if f.Place != nil {
		return what + " failed on " + n.place(*f.Place)
	}
	return fmt.Sprintf("%s failed without a change in %d of %s", what, f.Failures, units.Count(f.Runs, "run"))
}
