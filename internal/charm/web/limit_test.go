package web

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

func withWorkers(o Observed, workers ...model.Worker) Observed {
	web := *o.Facts.Web
	web.Workers = map[string]model.Worker{}
	for _, w := range workers {
		web.Workers["tsa:7 "+w.Unit] = w
	}
	o.Facts.Web = &web
	return o
}

func TestWebLimitsTasksIfAllGPUWorkersHaveOneNumber(t *testing.T) {
	plain := model.Worker{Unit: "plain/0", Key: "ssh-ed25519 AAAA plain"}
	keyless := roletest.GPUWorker("new/0", 9, roletest.Exclusive)
	keyless.Key = ""
	usual := "limit-active-tasks,volume-locality"
	missing := func(n int) func(*relation.WorkerGPUs) {
		return func(g *relation.WorkerGPUs) { g.Exclusive, g.Missing = true, n }
	}
	for name, c := range map[string]struct {
		set     map[string]any
		workers []model.Worker
		limit   string
		strategy,
		remark string
	}{
		"no worker":            {nil, nil, "", "volume-locality", ""},
		"shared GPUs":          {nil, []model.Worker{roletest.GPUWorker("a/0", 4), plain}, "", "volume-locality", ""},
		"all the same":         {nil, []model.Worker{roletest.GPUWorker("a/0", 4, roletest.Exclusive), roletest.GPUWorker("a/1", 4, roletest.Exclusive), keyless}, "4", usual, ""},
		"one has lost a GPU":   {nil, []model.Worker{roletest.GPUWorker("a/0", 1, missing(1)), roletest.GPUWorker("a/1", 2, roletest.Exclusive)}, "2", usual, ""},
		"one has lost all":     {nil, []model.Worker{roletest.GPUWorker("a/0", 0, missing(2)), roletest.GPUWorker("a/1", 2, roletest.Exclusive)}, "2", usual, ""},
		"they limit theirs":    {nil, []model.Worker{roletest.GPUWorker("a/0", 4, roletest.Limited), roletest.GPUWorker("a/1", 8, roletest.Limited), plain}, "10000", usual, ""},
		"one can't":            {nil, []model.Worker{roletest.GPUWorker("a/0", 4, roletest.Limited), roletest.GPUWorker("a/1", 4, roletest.Exclusive)}, "4", usual, ""},
		"one can't, and less":  {nil, []model.Worker{roletest.GPUWorker("a/0", 8, roletest.Limited), roletest.GPUWorker("a/1", 4, roletest.Exclusive)}, "4", usual, ""},
		"others have more":     {nil, []model.Worker{roletest.GPUWorker("a/0", 2, roletest.Exclusive), roletest.GPUWorker("b/0", 8)}, "", "volume-locality", "tasks are not limited to the GPUs: workers have 2, 8 of them, and the web has one limit for all; set --max-active-tasks-per-worker in extra-web-flags"},
		"many numbers":         {nil, []model.Worker{roletest.GPUWorker("a/0", 1, roletest.Exclusive), roletest.GPUWorker("a/1", 2, roletest.Exclusive), roletest.GPUWorker("a/2", 3, roletest.Exclusive), roletest.GPUWorker("a/3", 4, roletest.Exclusive), roletest.GPUWorker("a/4", 5, roletest.Exclusive)}, "", "volume-locality", "workers have 1, 2, 3, 4, ... of them"},
		"workers without GPUs": {nil, []model.Worker{roletest.GPUWorker("a/0", 2, roletest.Exclusive), plain}, "2", usual, "no worker gets more than 2 tasks at once: GPU workers have 2 GPUs, and the web has one limit for all"},
		"off":                  {map[string]any{"extra-web-flags": "--max-active-tasks-per-worker=0"}, []model.Worker{roletest.GPUWorker("a/0", 2, roletest.Exclusive), plain}, "", "volume-locality", ""},
		"a strategy of one's own": {map[string]any{"container-placement-strategy": "fewest-build-containers"}, []model.Worker{roletest.GPUWorker("a/0", 2, roletest.Exclusive)},
			"2", "limit-active-tasks,fewest-build-containers", ""},
		"random": {map[string]any{"container-placement-strategy": "random"}, []model.Worker{roletest.GPUWorker("a/0", 2, roletest.Exclusive)},
			"", "random", "tasks are not limited to the GPUs: container-placement-strategy=random excludes all others; set another, or --max-active-tasks-per-worker=0 in extra-web-flags"},
		"a limit by flag": {map[string]any{"extra-web-flags": "--max-active-tasks-per-worker=9"}, []model.Worker{roletest.GPUWorker("a/0", 2, roletest.Exclusive), plain}, "", "volume-locality", ""},
		"a strategy by flag": {map[string]any{"extra-web-flags": "--container-placement-strategy=random"}, []model.Worker{roletest.GPUWorker("a/0", 2, roletest.Exclusive)},
			"", "volume-locality", "tasks are not limited to the GPUs: extra-web-flags has a --container-placement-strategy without limit-active-tasks; add that, or --max-active-tasks-per-worker=0 in extra-web-flags"},
		"strategies by flags": {map[string]any{"extra-web-flags": "--container-placement-strategy=limit-active-tasks --container-placement-strategy=volume-locality"},
			[]model.Worker{roletest.GPUWorker("a/0", 2, roletest.Exclusive)}, "2", usual, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := withWorkers(observedWeb(t, c.set), c.workers...)
			d := Desire(o, nil)
			env := webEnv(t, d)
			require.Equal(t, c.limit, env["CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER"])
			require.Equal(t, c.strategy, env["CONCOURSE_CONTAINER_PLACEMENT_STRATEGY"])
			_, noted := resourcetest.File(d.Resources, NoteFile)
			require.Equal(t, c.limit != "", noted)
			require.Equal(t, c.limit == "", resourcetest.Absent(d.Resources, NoteFile))
			if c.remark == "" {
				require.Empty(t, d.Causes)
				return
			}
			require.Len(t, d.Causes, 1)
			require.Equal(t, status.Active, d.Causes[0].Kind)
			require.Contains(t, d.Causes[0].String(), c.remark)
			o.Facts.Web.Database = nil
			if c.limit != "" {
				o.Noted, o.WebEnv = []string{"CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER"}, []byte("CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER="+c.limit+"\n")
			}
			down := Desire(o, nil)
			require.NotContains(t, webEnv(t, down), "CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER", "the charm's goes with the web")
			require.True(t, resourcetest.Absent(down.Resources, NoteFile))
		})
	}
}

// A limit in the web's file is the operator's unless the charm noted that it wrote it. The
// charm's limit is removed with the option.
func TestLimitOfTheOperatorReplacesTheCharms(t *testing.T) {
	o := withWorkers(observedWeb(t, nil), roletest.GPUWorker("a/0", 2, roletest.Exclusive))
	o.WebEnv = []byte("CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER=7\n")
	env := webEnv(t, Desire(o, nil))
	require.Equal(t, "7", env["CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER"])
	require.Equal(t, "volume-locality", env["CONCOURSE_CONTAINER_PLACEMENT_STRATEGY"])
	o = withWorkers(o)
	require.Equal(t, "7", webEnv(t, Desire(o, nil))["CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER"])
	o.Noted, o.Config.Web.ExtraWebFlags = []string{"CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER"}, []string{"--max-active-tasks-per-worker=0"}
	require.NotContains(t, webEnv(t, Desire(o, nil)), "CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER")
}

// A worker that has its GPUs no more, has left, or has them again changes nothing of the web:
// a restart of the web takes up all running builds again.
func TestEnvironmentDoesNotFollowTheWorkersOfTheMoment(t *testing.T) {
	for name, is := range map[string]func(*relation.WorkerGPUs){"leased": roletest.Exclusive, "limited by themselves": roletest.Limited} {
		t.Run(name, func(t *testing.T) {
			gpu := withWorkers(observedWeb(t, nil), roletest.GPUWorker("a/0", 2, is))
			with := webEnv(t, Desire(gpu, nil))
			data, _ := resourcetest.File(Desire(gpu, nil).Resources, "/var/lib/concourse/config.env")
			gpu.WebEnv, gpu.Noted = []byte(data), []string{concourse.TaskLimitKey}
			for name, workers := range map[string][]model.Worker{
				"no worker": nil, "without GPUs": {{Unit: "a/0", Key: "ssh-ed25519 AAAA a"}}, "again": {roletest.GPUWorker("a/0", 2, is)},
			} {
				require.Equal(t, with, webEnv(t, Desire(withWorkers(gpu, workers...), nil)), name)
			}
		})
	}
	for _, workers := range [][]model.Worker{nil, {roletest.GPUWorker("a/0", 2)}} {
		env := webEnv(t, Desire(withWorkers(observedWeb(t, nil), workers...), nil))
		require.Equal(t, "true", env["CONCOURSE_ENABLE_RERUN_WHEN_WORKER_DISAPPEARS"])
	}
}

// After a crash anywhere the note lists all variables that the file may have.
func TestNoteIsWrittenBeforeTheLimitsAndRemovedAfterThem(t *testing.T) {
	o := withWorkers(observedWeb(t, nil), roletest.GPUWorker("a/0", 4, roletest.Exclusive))
	o.Noted = []string{"CONCOURSE_A_LIMIT"}
	var order []string
	for _, r := range Desire(o, nil).Resources {
		if f, is := r.(resource.File); is && (f.Path == NoteFile || strings.HasSuffix(f.Path, "config.env")) {
			order = append(order, filepath.Base(f.Path))
			if f.Path == NoteFile {
				order = append(order, strings.Fields(string(f.Data))...)
			}
		}
	}
	require.Equal(t, []string{"web-limit", "CONCOURSE_A_LIMIT", concourse.TaskLimitKey, "config.env", "web-limit", concourse.TaskLimitKey}, order)
}
