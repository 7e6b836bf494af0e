//go:build e2e

package concourse

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
	"github.com/fourdollars/concourse-ci-machine/tests/fusefs"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// failure is a task that fails, and the kinds of verdict that are right. The first one is the
// best, and Unknown among them leaves the truth open.
type failure struct {
	name    string
	script  string
	right   []verdict.Kind
	path    string // of a command in place of the script
	timeout string // of the step
	abort   bool   // fly aborts the build once its task runs
}

// The worker with its own GPUs for each task, one with GPUs whose memory is in use by others,
// and one without.
const (
	withGPUs  = "alone"
	withTaken = "taken"
	without   = "plain"
)

// farAway is a network that drops each packet.
const farAway = "203.0.113.0/24"

// failures runs tasks that fail, and judges their verdicts.
type failures struct {
	*story
	gpus, taken, plain *unit
	played             map[*unit][]*playedGPU
	handles            map[string]string // by job
	done               map[string]bool   // what happens once, by job
	meddled            time.Time
	rows               []row
}

// row is a line of the table.
type row struct {
	failure
	set string // pipeline
	got verdict.Verdict
}

// TestFailuresOfARealConcourseHaveTheirCause holds the verdicts of tasks that fail in different
// ways against their right kinds. The table is in its output.
func TestFailuresOfARealConcourseHaveTheirCause(t *testing.T) {
	tgz := releaseTarball(t)
	suite.Need(t, fusefs.Missing())
	require.NoError(t, guest.Command("ip", "route", "add", "blackhole", farAway))
	t.Cleanup(func() { require.NoError(t, guest.Command("ip", "route", "del", "blackhole", farAway)) })
	f := newFailures(t, tgz)
	f.since(f.begun, "the workers are ready")
	own, long, short, apart := ownFailures(), longGPUFailures(), shortGPUFailures(), lastGPUFailures()
	f.sets(without, without, own)
	f.sets(withTaken, withTaken, own)
	f.sets(withGPUs, withGPUs, plainOf(long, short, apart))
	f.sets("memory", withTaken, plainOf(memoryFailures()))
	f.triggers(without, own)
	f.triggers(withTaken, own)
	memory := f.lane("memory", f.taken, memoryFailures())
	memory.after = withTaken
	f.plays(f.lane(withGPUs, f.gpus, long), f.lane(withGPUs, f.gpus, short), memory)
	f.plays(f.lane(withGPUs, f.gpus, apart))
	f.awaitBuilds()
	f.since(f.begun, "the first builds have ended")
	f.sets("last", without, lastFailures())
	for _, one := range lastFailures() { // they concern all tasks of the worker
		f.triggers("last", []failure{one})
		f.awaitBuilds()
	}
	f.judge(without, f.plain, own)
	f.judge(withTaken, f.taken, own)
	f.judge(withGPUs, f.gpus, plainOf(long, short, apart))
	f.judge("memory", f.taken, plainOf(memoryFailures()))
	f.judge("last", f.plain, lastFailures())
	f.since(f.begun, "all")
	f.requireGoals()
}

// newFailures deploys a web and the workers.
func newFailures(t *testing.T, tgz string) *failures {
	s := &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir(), app: &app{t: t}}
	f := &failures{story: s, handles: map[string]string{}, done: map[string]bool{}, played: map[*unit][]*playedGPU{}}
	options := func(tag, sharing, runtime string) map[string]any {
		// A quarantined GPU would be missing in the next case.
		return map[string]any{"mode": "auto", "compute-runtime": runtime, "amd-container-toolkit": "skip",
			"gpu-device-ids": "0,1", "gpu-sharing": sharing, "gpu-quarantine": "manual", "extra-web-flags": "--max-active-tasks-per-worker=0",
			"enable-metrics": true, "tag": tag}
	}
	play := func(u *unit) { f.played[u] = playedGPUs(u) }
	web := newUnit(t, 0, "no-gpu", tgz, false)
	f.gpus = newUnit(t, 1, "mi210x4", tgz, false, play)
	f.taken = newUnit(t, 2, "mi210x4", tgz, false, play) // the fixture's GPUs are in use by others
	f.plain = newUnit(t, 3, "no-gpu", tgz, false)
	f.app.add(web, options("web", "shared", "none"))
	f.app.add(f.gpus, options(withGPUs, "exclusive", "auto"))
	f.app.add(f.taken, options(withTaken, "shared", "auto"))
	f.app.add(f.plain, options(without, "shared", "none"))
	t.Cleanup(func() { // or the machine's processes can't end
		for _, g := range f.played[f.gpus] {
			g.Hang(false)
		}
	})
	for _, g := range f.played[f.gpus] {
		g.rests()
	}
	const volumes = "/var/lib/concourse/worker"
	f.plain.must("mkdir -p " + volumes + " && mount -t tmpfs -o size=1g scarce " + volumes)
	require.NoError(t, f.gpus.Root.WriteFile(kernelLog, nil, 0o600))
	for _, u := range f.app.units {
		require.NoError(t, u.Root.WriteFile(concourse.OperatorEnvFile, []byte(impatient), 0o644))
		require.NoError(t, u.Root.MkdirAll("/srv/out_rw", 0o755))
		require.NoError(t, os.Chmod(u.Root.Path("/srv/out_rw"), 0o777))
	}
	for _, u := range []*unit{f.gpus, f.taken} {
		counted(u, "0000:c3:00.0", 0) // the fixture's fourth is sick from the start
	}
	f.isUp()
	return f
}

// lanes bounds the tasks of a worker that run at the same time.
const lanes = 4

// sets sets a pipeline with a job for each failure on the worker with a tag.
func (f *failures) sets(pipeline, tag string, all []failure) {
	f.t.Helper()
	var jobs []any
	for i, one := range all {
		job := pipeline + "-" + one.name
		script := lingers + "\n" + strings.ReplaceAll(one.script, "NAME", job)
		run := map[string]any{"path": "sh", "args": []string{"-c", script}}
		if one.path != "" {
			run = map[string]any{"path": one.path}
		}
		image := map[string]any{"type": "mock", "source": map[string]any{"mirror_self": true},
			"version": map[string]string{"version": "mock"}}
		task := map[string]any{"task": "victim", "tags": []string{tag},
			"config": map[string]any{"platform": "linux", "run": run, "image_resource": image}}
		if one.timeout != "" {
			task["timeout"] = one.timeout
		}
		group := i % lanes
		if pipeline == withGPUs { // each job is started when it is due
			group = i
		}
		jobs = append(jobs, map[string]any{"name": job, "plan": []any{task},
			"serial_groups": []string{fmt.Sprintf("%s-%d", pipeline, group)}})
	}
	text, err := json.Marshal(map[string]any{"jobs": jobs})
	require.NoError(f.t, err)
	f.fly.must("set-pipeline", "-n", "-p", pipeline, "-c", f.fly.write(pipeline+".json", string(text)))
	f.fly.must("unpause-pipeline", "-p", pipeline)
}

// triggers starts the jobs of failures.
func (f *failures) triggers(pipeline string, all []failure) {
	f.t.Helper()
	for _, one := range all {
		f.fly.must("trigger-job", "-j", pipeline+"/"+pipeline+"-"+one.name)
	}
}

// noteHandles notes the containers of the tasks.
func (f *failures) noteHandles() {
	f.t.Helper()
	var all []struct {
		ID   string `json:"id"`
		Job  string `json:"job_name"`
		Step string `json:"step_name"`
		Type string `json:"type"`
	}
	require.NoError(f.t, json.Unmarshal([]byte(f.fly.must("containers", "--json")), &all))
	for _, c := range all {
		if c.Step == "victim" && c.Type == "task" {
			f.handles[c.Job] = c.ID
		}
	}
}

// awaitBuilds waits until all builds have ended.
func (f *failures) awaitBuilds() {
	f.t.Helper()
	within(f.t, 10*time.Minute, func() bool { return f.meddle() && !f.running("", "") }, "the builds do not end")
}

// meddle notes containers, and does what happens to tasks from outside, once each. It does so
// every two seconds, and reports whether it has.
func (f *failures) meddle() bool {
	f.t.Helper()
	if time.Since(f.meddled) < 2*time.Second {
		return false
	}
	f.meddled = time.Now()
	f.noteHandles()
	for tag, u := range map[string]*unit{without: f.plain, withTaken: f.taken} {
		for _, one := range ownFailures() {
			if job := tag + "-" + one.name; one.abort && !f.done[job] && u.Root.Exists("/srv/out_rw/"+job) {
				f.fly.must("abort-build", "-j", tag+"/"+job, "-b", "1")
				f.done[job] = true
			}
		}
	}
	if killed := "/srv/out_rw/last-" + workerKilled; !f.done[killed] && f.plain.Root.Exists(killed) {
		f.plain.must("systemctl kill --signal=KILL concourse-worker")
		f.done[killed] = true
	}
	return true
}

// running reports whether a build of a job runs or waits. "" is any pipeline or any job.
func (f *failures) running(pipeline, job string) bool {
	f.t.Helper()
	var list []struct {
		Pipeline string `json:"pipeline_name"`
		Job      string `json:"job_name"`
		Status   string `json:"status"`
	}
	require.NoError(f.t, json.Unmarshal([]byte(f.fly.must("builds", "-c", "300", "--json")), &list))
	for _, b := range list {
		asked := (pipeline == "" || b.Pipeline == pipeline) && (job == "" || b.Job == job)
		if asked && (b.Status == "pending" || b.Status == "started") {
			return true
		}
	}
	return false
}

// judge reads the verdicts of a worker's tasks.
func (f *failures) judge(set string, u *unit, all []failure) {
	f.t.Helper()
	f.noteHandles()
	for _, one := range all {
		handle := f.handles[set+"-"+one.name]
		require.NotEmpty(f.t, handle, "%s of %s has no container", one.name, set)
		var told struct {
			Running bool             `json:"running"`
			Kind    verdict.Kind     `json:"kind"`
			Reasons []verdict.Reason `json:"reasons"`
		}
		within(f.t, 3*time.Minute, func() bool {
			out, err := u.run("/usr/bin/env CHARM_ROOT= " + charmDir() + "/dispatch why --json " + handle)
			return err == nil && json.Unmarshal([]byte(out), &told) == nil && !told.Running
		}, one.name+" of "+set+" has no verdict")
		r := row{one, set, verdict.Verdict{Kind: told.Kind, Reasons: told.Reasons}}
		f.rows = append(f.rows, r)
		if !r.isRight() {
			text, _ := u.action("why", map[string]any{"task": handle})["why"].(string)
			f.t.Logf("%s of %s:\n%s", one.name, set, text)
		}
	}
}

func (r row) isRight() bool { return slices.Contains(r.right, r.got.Kind) }

// requireGoals prints the table, and holds the goals.
func (f *failures) requireGoals() {
	f.t.Helper()
	var b strings.Builder
	const line = "%-6s %-22s %-28s %-10s %-18s %s\n"
	fmt.Fprintf(&b, "\n"+line, "set", "failure", "right", "verdict", "code", "ok")
	wrongly, onTask, known, named, gpus := 0, 0, 0, 0, 0
	for _, r := range f.rows {
		code, ok := "", "yes"
		if len(r.got.Reasons) > 0 {
			code = r.got.Reasons[0].Code
		}
		if !r.isRight() {
			ok = "NO"
		}
		fmt.Fprintf(&b, line, r.set, r.name, fmt.Sprint(r.right), r.got.Kind, code, ok)
		switch {
		case r.isRight():
		case r.right[0] == verdict.Task && r.got.Kind != verdict.Unknown:
			wrongly++
		case r.right[0] == verdict.GPU && r.got.Kind == verdict.Task:
			onTask++
		}
		if !slices.Contains(r.right, verdict.Unknown) {
			known++
			if r.isRight() {
				named++
			}
		}
		if r.set == withTaken && r.got.Kind == verdict.GPU && !r.isRight() {
			gpus++
		}
	}
	f.t.Logf("%s%d failures; named: %d of %d; on GPUs with memory in use, blamed on them: %d", b.String(), len(f.rows),
		named, known, gpus)
	require.GreaterOrEqual(f.t, len(f.rows), 24)
	require.Zero(f.t, wrongly, "infrastructure or a GPU is blamed for the task's own failure")
	require.Zero(f.t, onTask, "the task is blamed with a sign of the GPU in its record")
	require.Zero(f.t, gpus, "a GPU is blamed for memory that others use")
	require.GreaterOrEqual(f.t, named*10, known*9, "right kinds")
}
