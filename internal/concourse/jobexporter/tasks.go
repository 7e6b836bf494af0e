package jobexporter

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"time"
)

const (
	// taskLinger is how long a task's container is shown after Concourse has taken it
	// away: a build may end, and its container go, between two scrapes.
	taskLinger = 5 * time.Minute
	// maxTasks bounds the series of tasks: the latest are shown.
	maxTasks = 5000
)

// container is an element of GET /api/v1/teams/<team>/containers (atc/container.go).
// Its id is the handle, by which the worker knows it.
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

// task is whose a container is, as the labels say it.
type task struct {
	handle, worker, team, pipeline, job, build, step string

	buildID int
	seen    time.Time
}

// tasks are the containers of tasks that Concourse has or had a moment ago, by handle.
type tasks map[string]task

// containersOf is where a team's containers of tasks are listed. Gets, puts and checks
// are left out: they get no GPUs.
func containersOf(team string) string {
	return "/api/v1/teams/" + url.PathEscape(team) + "/containers?type=task"
}

// put remembers a container. A handle and a team it always has; a build of fly execute
// has neither pipeline nor job.
func (t tasks) put(v *view, team string, c container, now time.Time) {
	if !v.named("container", c.Handle, team) {
		return
	}
	ref := reference(c.Pipeline, c.Vars)
	for _, name := range []string{ref, c.Job, c.Build, c.Step, c.Worker} {
		if len(name) > maxName || c.Pipeline != "" && ref == "" {
			v.skipped["container"]++
			return
		}
	}
	t[c.Handle] = task{handle: c.Handle, worker: c.Worker, team: team, pipeline: ref, job: c.Job, build: c.Build, step: c.Step, buildID: c.BuildID, seen: now}
}

// show forgets what has been gone for long and gives the view the rest.
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
