package flake

import (
	"math"
	"slices"
	"time"
)

const (
	// outageTime is the time within which failures of several jobs are one outage.
	outageTime = 10 * time.Minute
	// minJobs is the number of jobs that an outage of a worker ends.
	minJobs = 3
	// minJobsOfSite is the number of jobs that an outage of several workers ends.
	minJobsOfSite = 4
)

// event is a run of a task that passed, or that failed without a change.
type event struct {
	at     time.Time
	job    Key
	worker string
	gpus   []string
	failed bool
	runs   []at // the run of the task and of its tests
}

// at points to a run of a series.
type at struct {
	s *series
	i int
}

// attempt identifies a run of a task for all of its series.
type attempt struct {
	task  Key
	build int
	end   time.Time
}

// markOutages marks failures of several jobs at the same time, on one worker or on several,
// if most runs of that time fail. Each of them passes with the same inputs at another time.
func markOutages(all []*series) {
	events := eventsOf(all)
	byWorker := map[string][]*event{}
	for _, e := range events {
		byWorker[e.worker] = append(byWorker[e.worker], e)
	}
	delete(byWorker, "")
	for _, here := range byWorker {
		markWindows(here, minJobs)
	}
	markWindows(events, minJobsOfSite)
}

// eventsOf returns the runs of tasks, oldest first. A task fails if one of its tests does.
func eventsOf(all []*series) (out []*event) {
	by := map[attempt]*event{}
	for _, s := range all {
		for i, m := range s.marks {
			if m != pass && !m.failing() {
				continue
			}
			r, task := s.runs[i], s.key
			task.Test = ""
			k := attempt{task, r.Build, r.Time}
			if by[k] == nil {
				by[k] = &event{at: r.Time, job: task.job(), worker: r.Worker, gpus: r.GPUs}
				out = append(out, by[k])
			}
			by[k].failed = by[k].failed || m.failing()
			by[k].runs = append(by[k].runs, at{s, i})
		}
	}
	slices.SortStableFunc(out, func(a, b *event) int { return a.at.Compare(b.at) })
	return out
}

// markWindows marks the failures in each window that is an outage.
func markWindows(events []*event, jobs int) {
	to := 0
	for from, first := range events {
		for to < len(events) && events[to].at.Sub(first.at) <= outageTime {
			to++
		}
		if window := events[from:to]; first.failed && isOutage(window, jobs) {
			for _, e := range window {
				e.mark()
			}
		}
	}
}

// isOutage reports whether runs of several jobs failed, more than passed, and not all of
// them on one GPU: that GPU is a place.
func isOutage(window []*event, jobs int) bool {
	var failed []Key
	passed, gpus := 0, map[string]bool{}
	failures := 0
	for _, e := range window {
		if !e.failed {
			passed++
			continue
		}
		failures++
		if !slices.Contains(failed, e.job) {
			failed = append(failed, e.job)
		}
		for _, g := range e.gpus {
			gpus[e.worker+" "+g] = true
		}
	}
	return len(failed) >= jobs && failures > passed && len(gpus) != 1
}

func (e *event) mark() {
	for _, r := range e.runs {
		if r.s.marks[r.i].failing() {
			r.s.marks[r.i] = outage
		}
	}
}

// noiseLevel is the probability above which failures are treated as background noise.
const noiseLevel = 0.05

// isNoise reports whether a task fails no more than the tasks around it, such as in outages
// that no other sign showed. Tasks with more failures are left out, because a flaky task
// must not hide another one. Tests have names, and outages rarely fail them.
func isNoise(all []*series, s *series, f Flake) bool {
	if s.key.Test != "" || f.Place != nil {
		return false
	}
	failures, runs := 0, 0
	for _, other := range all {
		if other == s || other.key.Test != "" {
			continue
		}
		if n := other.count(mixed); n <= f.Failures {
			failures, runs = failures+n, runs+n+other.count(pass)
		}
	}
	if failures == 0 {
		return false
	}
	expected := float64(f.Runs) * float64(failures) / float64(runs)
	fewer, term := 0.0, math.Exp(-expected)
	for k := range f.Failures {
		fewer += term
		term *= expected / float64(k+1)
	}
	return 1-fewer > noiseLevel
}

func (s *series) count(m mark) (n int) {
	for _, one := range s.marks {
		if one == m {
			n++
		}
	}
	return n
}
