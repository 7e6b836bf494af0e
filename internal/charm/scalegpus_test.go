package charm

import (
	"context"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// publishGPUs puts the GPUs of a worker into its databag.
func publishGPUs(r *jujutest.Relation, unit string, g relation.WorkerGPUs) {
	for k, v := range g.Databag() {
		delete(r.Units[unit], k)
		if v != "" {
			r.Units[unit][k] = v
		}
	}
}

// A web is restarted for the first worker that needs the limit, and not for the
// others; all of it in two hooks for each, with the same questions.
func TestManyJoiningGPUWorkersRestartTheWebOnce(t *testing.T) {
	w := newScaleWeb(t, "web", 7)
	tsa := w.model.Relations[2]
	w.model.Config["required-archs"] = "gfx942,gfx90a"
	w.hook("config-changed")
	require.Contains(t, w.model.Status().Message, "; required-archs: no worker has gfx942, gfx90a")
	require.Equal(t, "active", w.model.Status().Status)
	mi300 := relation.WorkerGPUs{Runtime: "rocm", Count: 8, Exclusive: true, Archs: []relation.ArchCount{{Arch: "gfx942", GPUs: 8}}}
	restart := "systemctl restart " + concourse.WebUnit
	var tools map[string]int
	for i := range 20 {
		unit := w.joins(tsa, i, fakeKey(t, i))
		publishGPUs(tsa, unit, mi300)
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
	require.Contains(t, w.model.Status().Message, "required-archs: no worker has gfx90a")
	w.quiet(func() ran { return w.hook("update-status") })
	w.quiet(func() ran { return w.hook("config-changed") })

	t.Run("and again when the number is no longer one", func(t *testing.T) {
		mi250 := relation.WorkerGPUs{Runtime: "rocm", Count: 4, Exclusive: true, Archs: []relation.ArchCount{{Arch: "gfx90a", GPUs: 4}}}
		unit := w.joins(tsa, 20, fakeKey(t, 20))
		publishGPUs(tsa, unit, mi250)
		require.Contains(t, w.related(tsa, "changed", unit).commands, restart)
		require.NotContains(t, w.model.Status().Message, "required-archs", "the remark is gone with its reason")
		require.Contains(t, w.model.Status().Message, "tasks are not limited to the GPUs")
		require.False(t, w.root.Exists(web.NoteFile))
		w.quiet(func() ran { return w.hook("update-status") })
	})
	t.Run("what one tells wrong is named, and its key is taken all the same", func(t *testing.T) {
		unit := w.joins(tsa, 21, fakeKey(t, 21))
		tsa.Units[unit]["gpu-count"], tsa.Units[unit]["gpu-archs"] = "1", "$(id)\n"
		require.Equal(t, reloaded, w.related(tsa, "changed", unit).commands)
		require.Contains(t, w.keys(), fakeKey(t, 21))
		require.Contains(t, w.model.Status().Message, unit+" publishes wrong data: ")
	})
}

// helping returns a machine with a release that prints the given help.
type helping struct {
	hosttest.Machine
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
	return m.Machine.Run(ctx, c)
}

// A worker limits its tasks if its release supports that, and publishes the limit to the web.
// The release is inspected once, also in the hook that installs it.
func TestWorkerLimitsItselfIfItsReleaseSupportsIt(t *testing.T) {
	next := &helping{Machine: hosttest.NewMachine(t), help: "      --name=   The name\n"}
	r := hosttest.Host(t, "mi210x4")
	next.Answer("systemctl", "").Answer("udevadm", "").Answer("journalctl", `{"message":"worker.beacon-runner.beacon.registered"}`)
	m := jujutest.New("gpu/0")
	m.CharmDir = hosttest.CharmDir(t)
	tarball := func(version string) {
		file := filepath.Join(t.TempDir(), version+".tgz")
		require.NoError(t, sandbox.StandInRelease(file, version))
		m.Resources["concourse-release"] = file
	}
	tarball("8.2.5")
	m.Config = map[string]any{"mode": "worker", "compute-runtime": "rocm", "gpu-sharing": "exclusive", "amd-container-toolkit": "skip", "install-driver": "never"}
	flight := m.Relate(7, "flight", "web")
	flight.Units = map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2:2222", "tsa-public-key": roletest.TSAKey}}
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
	require.False(t, r.Exists(worker.WorkerLimitFile))
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
