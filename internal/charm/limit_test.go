package charm

import (
	"context"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/host/hosttest"
	"concourse-ci-machine/internal/juju/jujutest"
	"concourse-ci-machine/internal/relation"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/internal/sandbox"
)

// gpuWorker is what a unit with that many AMD GPUs told.
func gpuWorker(unit string, gpus int, exclusive, limited bool) Worker {
	return Worker{Unit: unit, Key: "ssh-ed25519 AAAA " + unit, Name: strings.ReplaceAll(unit, "/", "-"),
		GPUs: relation.WorkerGPUs{Runtime: "rocm", Count: gpus, Exclusive: exclusive, Limited: limited, Archs: []relation.ArchCount{{Arch: "gfx942", GPUs: gpus}}}}
}

func withWorkers(o Observed, workers ...Worker) Observed {
	web := *o.Facts.Web
	web.Workers = map[string]Worker{}
	for _, w := range workers {
		web.Workers["tsa:7 "+w.Unit] = w
	}
	o.Facts.Web = &web
	return o
}

func TestWebLimitsTasksWhereOneNumberFitsAllGPUWorkers(t *testing.T) {
	plain := Worker{Unit: "plain/0", Key: "ssh-ed25519 AAAA plain"}
	keyless := gpuWorker("new/0", 9, true, false)
	keyless.Key = ""
	usual := "limit-active-tasks,volume-locality"
	for name, c := range map[string]struct {
		set     map[string]any
		workers []Worker
		limit   string
		strategy,
		remark string
	}{
		"no worker":            {nil, nil, "", "volume-locality", ""},
		"shared GPUs":          {nil, []Worker{gpuWorker("a/0", 4, false, false), plain}, "", "volume-locality", ""},
		"all the same":         {nil, []Worker{gpuWorker("a/0", 4, true, false), gpuWorker("a/1", 4, true, false), keyless}, "4", usual, ""},
		"they limit theirs":    {nil, []Worker{gpuWorker("a/0", 4, true, true), gpuWorker("a/1", 8, true, true)}, "", "volume-locality", ""},
		"one can't":            {nil, []Worker{gpuWorker("a/0", 4, true, true), gpuWorker("a/1", 4, true, false)}, "4", usual, ""},
		"one can't, and less":  {nil, []Worker{gpuWorker("a/0", 8, true, true), gpuWorker("a/1", 4, true, false)}, "", "volume-locality", "workers have 4, 8 of them"},
		"others have more":     {nil, []Worker{gpuWorker("a/0", 2, true, false), gpuWorker("b/0", 8, false, false)}, "", "volume-locality", "tasks are not limited to the GPUs: workers have 2, 8 of them, and the web has one limit for all; set --max-active-tasks-per-worker in extra-web-flags, or limit-gpu-tasks=off"},
		"many numbers":         {nil, []Worker{gpuWorker("a/0", 1, true, false), gpuWorker("a/1", 2, true, false), gpuWorker("a/2", 3, true, false), gpuWorker("a/3", 4, true, false), gpuWorker("a/4", 5, true, false)}, "", "volume-locality", "workers have 1, 2, 3, 4, ... of them"},
		"workers without GPUs": {nil, []Worker{gpuWorker("a/0", 2, true, false), plain}, "2", usual, "no worker gets more than 2 tasks at once, as GPU workers have 2 GPUs and the web has one limit for all (limit-gpu-tasks)"},
		"off":                  {map[string]any{"limit-gpu-tasks": "off"}, []Worker{gpuWorker("a/0", 2, true, false), plain}, "", "volume-locality", ""},
		"a strategy of one's own": {map[string]any{"container-placement-strategy": "fewest-build-containers"}, []Worker{gpuWorker("a/0", 2, true, false)},
			"2", "limit-active-tasks,fewest-build-containers", ""},
		"random": {map[string]any{"container-placement-strategy": "random"}, []Worker{gpuWorker("a/0", 2, true, false)},
			"", "random", "tasks are not limited to the GPUs: container-placement-strategy=random goes with no other; set another, or limit-gpu-tasks=off"},
		"a limit by flag": {map[string]any{"extra-web-flags": "--max-active-tasks-per-worker=9"}, []Worker{gpuWorker("a/0", 2, true, false), plain}, "", "volume-locality", ""},
		"a strategy by flag": {map[string]any{"extra-web-flags": "--container-placement-strategy=random"}, []Worker{gpuWorker("a/0", 2, true, false)},
			"", "volume-locality", "tasks are not limited to the GPUs: extra-web-flags has a --container-placement-strategy without limit-active-tasks; add that, or set limit-gpu-tasks=off"},
		"strategies by flags": {map[string]any{"extra-web-flags": "--container-placement-strategy=limit-active-tasks --container-placement-strategy=volume-locality"},
			[]Worker{gpuWorker("a/0", 2, true, false)}, "2", usual, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := withWorkers(observedWeb(t, c.set), c.workers...)
			d := Desire(o)
			env := webEnv(t, d)
			require.Equal(t, c.limit, env["CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER"])
			require.Equal(t, c.strategy, env["CONCOURSE_CONTAINER_PLACEMENT_STRATEGY"])
			_, noted := file(d, webLimitFile)
			require.Equal(t, c.limit != "", noted)
			require.Equal(t, c.limit == "", absent(d, webLimitFile))
			if c.remark == "" {
				require.Empty(t, d.Causes)
				return
			}
			require.Len(t, d.Causes, 1)
			require.Equal(t, Active, d.Causes[0].Kind)
			require.Contains(t, d.Causes[0].Text, c.remark)
			o.Facts.Web.Database = nil
			require.Equal(t, c.limit, webEnv(t, Desire(o))["CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER"], "with the web down as well")
		})
	}
}

// A limit in the web's file is the operator's, unless the charm noted that it
// wrote one; its own goes with the last worker that needs it.
func TestOperatorsLimitInTheFileWinsAndTheCharmsGoes(t *testing.T) {
	o := withWorkers(observedWeb(t, nil), gpuWorker("a/0", 2, true, false))
	o.WebEnv = []byte("CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER=7\n")
	env := webEnv(t, Desire(o))
	require.Equal(t, "7", env["CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER"])
	require.Equal(t, "volume-locality", env["CONCOURSE_CONTAINER_PLACEMENT_STRATEGY"])
	o = withWorkers(o)
	require.Equal(t, "7", webEnv(t, Desire(o))["CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER"])
	o.Limits = []string{"CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER"}
	require.NotContains(t, webEnv(t, Desire(o)), "CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER")
}

// A crash anywhere leaves a note that is true: of what the file may have.
func TestNoteOfLimitsIsWrittenBeforeAndForgottenAfterThem(t *testing.T) {
	o := withWorkers(observedWeb(t, nil), gpuWorker("a/0", 4, true, false))
	o.Limits = []string{"CONCOURSE_A_LIMIT"}
	var order []string
	for _, r := range Desire(o).Resources {
		if f, is := r.(resource.File); is && (f.Path == webLimitFile || strings.HasSuffix(f.Path, "config.env")) {
			order = append(order, filepath.Base(f.Path))
			if f.Path == webLimitFile {
				order = append(order, strings.Fields(string(f.Data))...)
			}
		}
	}
	require.Equal(t, []string{"web-limit", "CONCOURSE_A_LIMIT", concourse.TaskLimitKey, "config.env", "web-limit", concourse.TaskLimitKey}, order)
}

// tells puts the GPUs of a worker into its bag.
func tells(r *jujutest.Relation, unit string, g relation.WorkerGPUs) {
	for k, v := range g.Bag() {
		delete(r.Units[unit], k)
		if v != "" {
			r.Units[unit][k] = v
		}
	}
}

// A web is restarted for the first worker that needs the limit, and not for the
// others; all of it in two hooks for each, with the same questions.
func TestManyGPUWorkersThatJoinRestartTheWebOnce(t *testing.T) {
	w := newScaleWeb(t, "web", 7)
	tsa := w.model.Relations[2]
	w.model.Config["required-archs"] = "gfx942,gfx90a"
	w.hook("config-changed")
	require.Contains(t, w.model.Status().Message, "; no worker has gfx942, gfx90a (required-archs)")
	require.Equal(t, "active", w.model.Status().Status)
	mi300 := relation.WorkerGPUs{Runtime: "rocm", Count: 8, Exclusive: true, Archs: []relation.ArchCount{{Arch: "gfx942", GPUs: 8}}}
	restart := "systemctl restart " + concourse.WebUnit
	var tools map[string]int
	for i := range 20 {
		unit := w.joins(tsa, i, fakeKey(t, i))
		tells(tsa, unit, mi300)
		got := w.related(tsa, "changed", unit)
		require.Equal(t, []string{unit}, got.read(tsa))
		if i == 0 {
			require.Contains(t, got.commands, restart)
			continue
		}
		require.Equal(t, reloaded, got.commands)
		if i == 1 {
			tools = got.tools()
		}
		require.Equal(t, tools, got.tools())
	}
	env, err := w.root.ReadText("/var/lib/concourse/config.env")
	require.NoError(t, err)
	require.Contains(t, env, "CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER=8\n")
	require.Contains(t, w.model.Status().Message, "; no worker has gfx90a (required-archs)")
	w.quiet(func() ran { return w.hook("update-status") })
	w.quiet(func() ran { return w.hook("config-changed") })

	t.Run("and again when the number is no longer one", func(t *testing.T) {
		mi250 := relation.WorkerGPUs{Runtime: "rocm", Count: 4, Exclusive: true, Archs: []relation.ArchCount{{Arch: "gfx90a", GPUs: 4}}}
		unit := w.joins(tsa, 20, fakeKey(t, 20))
		tells(tsa, unit, mi250)
		require.Contains(t, w.related(tsa, "changed", unit).commands, restart)
		require.NotContains(t, w.model.Status().Message, "required-archs", "the remark is gone with its reason")
		require.Contains(t, w.model.Status().Message, "workers have 4, 8 of them")
		require.False(t, w.root.Exists(webLimitFile))
		w.quiet(func() ran { return w.hook("update-status") })
	})
	t.Run("what one tells wrong is named, and its key is taken all the same", func(t *testing.T) {
		unit := w.joins(tsa, 21, fakeKey(t, 21))
		tsa.Units[unit]["gpu-count"], tsa.Units[unit]["gpu-archs"] = "1", "$(id)\n"
		require.Equal(t, reloaded, w.related(tsa, "changed", unit).commands)
		require.Contains(t, w.keys(), fakeKey(t, 21))
		require.Contains(t, w.model.Status().Message, unit+` tells wrong of its GPUs: gpu-archs: "$(id)" is not an architecture`)
	})
}

// helping is a machine whose release has the given help.
type helping struct {
	machine
	help  string
	asked int
}

func (m *helping) Run(ctx context.Context, c host.Command) ([]byte, error) {
	if strings.HasSuffix(c.String(), "concourse worker --help") {
		m.asked++
		if m.help == "" {
			return nil, &host.CommandError{Argv: c.Argv, Code: 126, Stderr: "exec format error"}
		}
		return []byte(m.help), nil
	}
	return m.machine.Run(ctx, c)
}

// A worker says how many tasks it takes where its release knows how; it tells the
// web so. The release is asked once, and in the hook that installs it.
func TestWorkerLimitsItselfWhereItsReleaseCan(t *testing.T) {
	next := &helping{machine: newMachine(t), help: "      --name=   The name\n"}
	r := hosttest.Host(t, "mi210x4")
	next.Answer("systemctl", "").Answer("udevadm", "").Answer("journalctl", `{"message":"worker.beacon-runner.beacon.registered"}`)
	m := jujutest.New("gpu/0")
	m.CharmDir = charmDir(t)
	tarball := func(version string) {
		file := filepath.Join(t.TempDir(), version+".tgz")
		require.NoError(t, sandbox.StandInRelease(file, version))
		m.Resources["concourse-release"] = file
	}
	tarball("8.2.5")
	m.Config = map[string]any{"mode": "worker", "compute-runtime": "rocm", "gpu-sharing": "exclusive", "amd-container-toolkit": "skip", "install-driver": "never"}
	flight := m.Relate(7, "flight", "web")
	flight.Units = map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2:2222", "tsa-public-key": tsaKey}}
	hook := func(name string) {
		t.Helper()
		ctx := m.Begin(jujutest.Hook(name))
		require.NoError(t, charmOf(t, r, m, ctx, next).Hook(t.Context()))
		require.NoError(t, ctx.Commit())
	}
	limit := func() string {
		text, err := r.ReadText(concourse.EnvFile)
		require.NoError(t, err)
		for line := range strings.Lines(text) {
			if n, ok := strings.CutPrefix(line, "CONCOURSE_MAX_ACTIVE_TASKS="); ok {
				return strings.TrimSpace(n)
			}
		}
		return ""
	}
	gpus := map[string]string{"compute-runtime": "rocm", "gpu-count": "4", "gpu-archs": "gfx90a=4", "gpu-sharing": "exclusive", "gpu-limit": "none"}
	published := func() map[string]string {
		got := maps.Clone(flight.Local)
		maps.DeleteFunc(got, func(k, _ string) bool { _, is := gpus[k]; return !is })
		return got
	}
	hook("install")
	require.Equal(t, gpus, published())
	require.Equal(t, 1, next.asked, "in the hook that installed it")
	require.Empty(t, limit())
	hook("update-status")
	require.Equal(t, 1, next.asked)

	next.help = "      --max-active-tasks=   Maximum\n"
	tarball("8.4.0")
	hook("upgrade-charm")
	gpus["gpu-limit"] = "own"
	require.Equal(t, gpus, published())
	require.Equal(t, "4", limit())
	require.Equal(t, 2, next.asked)

	m.Config["gpu-device-ids"] = "0-2"
	hook("config-changed")
	require.Equal(t, "3", limit())
	require.Equal(t, "gfx90a=3", published()["gpu-archs"])
	m.Config["gpu-sharing"] = "shared"
	hook("config-changed")
	require.Empty(t, limit())
	require.False(t, r.Exists(workerLimitFile))
	require.Equal(t, map[string]string{"compute-runtime": "rocm", "gpu-count": "3", "gpu-archs": "gfx90a=3", "gpu-sharing": "shared"}, published())

	m.Config["gpu-sharing"], next.help = "exclusive", ""
	hook("config-changed")
	require.Equal(t, 3, next.asked, "one that can't be asked is asked once in a hook")
	require.Equal(t, "none", published()["gpu-limit"])
	require.Equal(t, 3, next.asked)
	m.Config["compute-runtime"] = "none"
	hook("config-changed")
	require.Empty(t, published(), "a worker without GPUs tells nothing of them")
	require.NotEmpty(t, flight.Local["worker-public-key"])
}
