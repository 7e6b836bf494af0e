// Package flake finds tasks and tests of Concourse that fail without a change: runs of the
// same task with the same inputs and other results. It also finds the GPU or the worker on
// which they fail, by an exact test, and runs that an outage ended.
//
// All functions are pure. The package never asks Concourse and never reads a clock.
package flake

import (
	"cmp"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/testreport"
)

// Key identifies a task, or a test of a task if Test is set.
type Key struct {
	Team     string `json:"team"`
	Pipeline string `json:"pipeline"`
	Job      string `json:"job"`
	Step     string `json:"step"`
	Test     string `json:"test,omitempty"`
}

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Team, o.Team), cmp.Compare(k.Pipeline, o.Pipeline), cmp.Compare(k.Job, o.Job),
		cmp.Compare(k.Step, o.Step), cmp.Compare(k.Test, o.Test))
}

// job returns the key of the job.
func (k Key) job() Key { return Key{Team: k.Team, Pipeline: k.Pipeline, Job: k.Job} }

// Result is the result of a run.
type Result string

// Values of Result.
const (
	Passed  Result = "passed"
	Failed  Result = "failed"
	Errored Result = "errored" // Concourse could not run it
	Aborted Result = "aborted" // by a person, so it shows nothing
)

// Cause is the kind of a verdict on a failed run.
type Cause string

// Values of Cause. "" means that the run has no verdict.
const (
	ByGPU       Cause = "gpu"
	ByMachine   Cause = "machine"
	ByNeighbour Cause = "neighbour"
	ByConcourse Cause = "concourse"
	ByTask      Cause = "task"
	Unclear     Cause = "unknown"
)

// Infrastructure reports whether the task itself is not the cause.
func (c Cause) Infrastructure() bool {
	return c == ByGPU || c == ByMachine || c == ByNeighbour || c == ByConcourse
}

// Run describes one run of a task in a build of a job.
type Run struct {
	Key
	Build  int                // id
	Name   string             // of the build in its job
	Inputs string             // digest of the inputs and the configuration; "": unknown
	Worker string             // "": unknown
	GPUs   []string           // names on the worker; nil: none or unknown
	Time   time.Time          // of its end
	Result Result             //
	Cause  Cause              //
	Reason string             // of the verdict
	Tests  *testreport.Report // nil: none
}

// Kind names the thing that a flake depends on.
type Kind string

// Values of Kind.
const (
	KindTest   Kind = "test" // the task or test itself, on any place
	KindGPU    Kind = "gpu"
	KindWorker Kind = "worker"
)

// Flake describes a task or test that fails without a change.
type Flake struct {
	Key
	Kind     Kind      `json:"kind"`
	Failures int       `json:"failures"` // that no change explains
	Runs     int       `json:"runs"`     // these failures, and passed runs
	Rate     float64   `json:"rate"`
	Since    time.Time `json:"since"` // first failure
	Last     time.Time `json:"last"`
	Builds   []Build   `json:"builds"`          // latest failures, newest first
	Place    *Place    `json:"place,omitempty"` // with kind gpu or worker
}

// Build names a build of a flake.
type Build struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

// Place describes how often runs fail on a GPU or a worker, and on all others.
type Place struct {
	Worker      string  `json:"worker"`
	GPU         string  `json:"gpu,omitempty"` // "": the whole worker
	Failures    int     `json:"failures"`
	Runs        int     `json:"runs"`
	OthersFail  int     `json:"others_failures"`
	OthersRuns  int     `json:"others_runs"`
	Tasks       int     `json:"tasks"`       // tasks with a failure on the place
	Probability float64 `json:"probability"` // of this by accident, corrected for all comparisons
}

// Lost describes a failed run that the task did not cause.
type Lost struct {
	Key
	Build  Build     `json:"build"`
	Worker string    `json:"worker,omitempty"`
	GPUs   []string  `json:"gpus"`
	Time   time.Time `json:"time"`
	Cause  Cause     `json:"cause"`
	Reason string    `json:"reason"`
}

// Report holds the result of Find.
type Report struct {
	Flakes []Flake // most failures first
	Places []Place // with failures of several tasks, least probable first
	Lost   []Lost  // newest first
}

// Find finds the flakes in runs of any order. Runs of one build of the same key are attempts.
func Find(runs []Run) Report {
	all := seriesOf(runs)
	markOutages(all)
	for _, s := range all {
		s.markBreaks()
	}
	blamed := blame(all)
	var out Report
	for i, s := range all {
		if f, is := s.flake(blamed.each[i]); is && !isNoise(all, s, f) {
			out.Flakes = append(out.Flakes, f)
		}
		out.Lost = append(out.Lost, s.lost()...)
	}
	out.Places = blamed.places
	slices.SortStableFunc(out.Flakes, func(a, b Flake) int {
		return cmp.Or(cmp.Compare(b.Failures, a.Failures), a.Key.compare(b.Key))
	})
	slices.SortStableFunc(out.Lost, func(a, b Lost) int { return b.Time.Compare(a.Time) })
	return out
}

// maxBuilds bounds the builds that a flake names.
const maxBuilds = 5

// minEpisodes is the number of failures with passed runs between them from which a task is
// flaky. One failure alone may be an outage that nothing else showed.
const minEpisodes = 2

// flake returns the flake of a series. place is the place on which it fails, or nil.
func (s *series) flake(place *Place) (Flake, bool) {
	if place == nil && s.episodes(nil) < minEpisodes {
		return Flake{}, false
	}
	f := Flake{Key: s.key, Kind: KindTest, Place: place}
	switch {
	case place != nil && place.GPU != "":
		f.Kind = KindGPU
	case place != nil:
		f.Kind = KindWorker
	}
	for i, r := range s.runs {
		switch m := s.marks[i]; {
		case m == pass:
			f.Runs++
		case m == mixed || m == alone && place != nil:
			f.Runs++
			f.Failures++
			if f.Last = r.Time; f.Since.IsZero() {
				f.Since = r.Time
			}
			if b := (Build{r.Build, r.Name}); !slices.Contains(f.Builds, b) {
				f.Builds = append(f.Builds, b)
			}
		}
	}
	slices.Reverse(f.Builds)
	f.Builds = f.Builds[:min(len(f.Builds), maxBuilds)]
	f.Rate = float64(f.Failures) / float64(f.Runs)
	return f, true
}

// lost returns the runs of tasks that infrastructure ended.
func (s *series) lost() (out []Lost) {
	if s.key.Test != "" {
		return nil
	}
	for i, r := range s.runs {
		one := Lost{s.key, Build{r.Build, r.Name}, r.Worker, append([]string{}, r.GPUs...), r.Time, r.Cause, r.Reason}
		switch {
		case s.marks[i] == outage:
			one.Cause = ByConcourse
			one.Reason = "tasks of several jobs failed at the same time, and pass with the same inputs"
		case r.Result == Passed || r.Result == Aborted || !r.Cause.Infrastructure():
			continue // without a sign, such as an error of the pipeline's configuration
		}
		out = append(out, one)
	}
	return out
}
