package jobexporter

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"time"
)

const (
	// taskLinger is the time for which a task's container is shown after Concourse removed
	// it, because both may happen between two scrapes.
	taskLinger = 5 * time.Minute
	// maxTasks bounds the series of tasks. The latest are shown.
	maxTasks = 5000
)

// container decodes an element of GET /api/v1/teams/<team>/containers (atc/container.go).
// Its id is the handle, which also names it on the worker.
type container struct {
	Handle   string         `json:"id"`
	Worker   string         `json:"worker_name"`
	Pipeline string         `json:"pipeline_name"`
	Vars     map[string]any `json:"pipeline_instance_vars"`
	Job      string         `json:"job_name"`
	Build    string         `json:"build_name"`
	BuildID  int            `json:"build_id"`
	Step     string         `json:"step_name"`
}

// task has the owner of a container, as labels.
type task struct {
	handle, worker, team, pipeline, job, build, step string

	buildID int
	seen    time.Time
}

// tasks holds the containers of tasks that Concourse has or had recently, by handle.
type tasks map[string]task

// containersOf returns the path of a team's containers of tasks. Gets, puts and checks are
// left out, because they get no GPUs.
func containersOf(team string) string {
	return "/api/v1/teams/" + url.PathEscape(team) + "/containers?type=task"
}

// put adds a container. It always has a handle and a team. A build of fly execute has
// neither pipeline nor job.
func (t tasks) put(v *view, team string, c container, now time.Time) {
	if !v.named("container", c.Handle, team) {
		return
	}
	ref := Reference(c.Pipeline, c.Vars)
	for _, name := range []string{ref, c.Job, c.Build, c.Step, c.Worker} {
		if len(name) > maxName || c.Pipeline != "" && ref == "" {
			v.skipped["container"]++
			return
		}
	}
	t[c.Handle] = task{handle: c.Handle, worker: c.Worker, team: team, pipeline: ref, job: c.Job, build: c.Build,
		step: c.Step, buildID: c.BuildID, seen: now}
}

// show removes containers that disappeared some time ago, and adds the others to the view.
func (t tasks) show(v *view, now time.Time) {
	maps.DeleteFunc(t, func(_ string, one task) bool { return now.Sub(one.seen) > taskLinger })
	latest := slices.SortedFunc(maps.Values(t), func(a, b task) int {
		return cmp.Or(b.seen.Compare(a.seen), cmp.Compare(b.buildID, a.buildID), cmp.Compare(a.handle, b.handle))
	})
	shown := latest[:min(len(latest), maxTasks)]
	v.skipped["container"] += len(latest) - len(shown)
	for _, one := range shown {
		v.put(containerInfo, 1, one.build, one.handle, one.job, one.pipeline, one.step, one.team, one.worker)
	}
}

// streak counts the consecutive builds of a job that failed or errored.
type streak struct {
	end    int64 // of the last counted build
	builds int
}

// streaks has streaks by team, pipeline and job.
type streaks map[[3]string]streak

// then returns the streak after the last finished build of a job. Concourse lists only one
// finished build, so of several that ended between two polls one is counted. An aborted
// build has no information about the job, so it leaves the streak unchanged.
func (s streak) then(b *build) streak {
	switch {
	case b == nil || b.Status == "succeeded":
		return streak{}
	case (b.Status == "failed" || b.Status == "errored") && b.End != s.end:
		return streak{b.End, s.builds + 1}
	}
	return s
}
