package actions

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// acted runs an action on a fixture host.
func acted(t *testing.T, host, name string, params map[string]any, set func(*Actions)) *jujutest.Action {
	t.Helper()
	m := jujutest.New("concourse-ci-machine/0")
	m.CharmDir = hosttest.CharmDir(t)
	ctx := m.BeginAction(name, params)
	c := actionsOf(t, hosttest.Host(t, host), m, ctx, hosttest.NewMachine(t))
	if set != nil {
		set(c)
	}
	require.NoError(t, c.Action(t.Context()))
	require.NoError(t, ctx.Commit())
	return m.Actions[len(m.Actions)-1]
}

func TestExplainErrorAction(t *testing.T) {
	a := acted(t, "no-gpu", "explain-error", map[string]any{"code": 7}, nil)
	require.Equal(t, "completed", a.Status)
	var want strings.Builder
	require.NoError(t, (&Actions{Charm: &charm.Charm{}}).ExplainError(&want, term.Format{}, "7"))
	require.Equal(t, strings.TrimSpace(want.String()), a.Results["explanation"])

	for _, params := range []map[string]any{{"code": 9}, {"code": 0}, {"code": -7}, {"code": "memory"}, {"code": true}} {
		a := acted(t, "no-gpu", "explain-error", params, nil)
		require.Equal(t, "failed", a.Status, params)
		require.Contains(t, a.Message, "want one of 1 GPU Memory Error, 2 GPU Hang, ", params)
		require.Empty(t, a.Results, params)
	}
}

func TestActionsReturnTheOutputOfTheCommands(t *testing.T) {
	a := acted(t, "both-passed", "list-gpus", nil, nil)
	require.Equal(t, "AMD GPU detected\nNVIDIA GPU detected", a.Results["detected"])
	require.Contains(t, a.Results["gpus"], "Found 1 NVIDIA GPU device")
	a = acted(t, "no-gpu", "explain-error", map[string]any{"format": "text"}, nil)
	require.Contains(t, a.Results["explanation"], "   8  XGMI Link Error            Critical  A direct link")
	a = acted(t, "no-gpu", "explain-error", map[string]any{"format": "json"}, nil)
	require.Contains(t, a.Results["explanation"], `"name": "XGMI Link Error"`)
}

// A failed check gives both the results and the failure.
func TestFailedChecksFailTheActionWithResults(t *testing.T) {
	closed := func(c *Actions) {
		c.Probe = func(_ context.Context, node string) (string, error) {
			if node == "/dev/kfd" {
				return "", nil
			}
			return "", errors.New("worn out")
		}
	}
	a := acted(t, "amd", "verify-gpu", map[string]any{"format": "text"}, closed)
	require.Equal(t, "failed", a.Status)
	require.Equal(t, "cannot use every GPU node: 1 of 2 failed: /dev/dri/renderD128: worn out", a.Message)
	require.Contains(t, a.Results["verified"], "ok      /dev/kfd\n")
	require.Contains(t, a.Results["verified"], "FAILED  /dev/dri/renderD128 ")

	a = acted(t, "mi210x4", "gpu-health", map[string]any{"format": "json"}, nil)
	require.Equal(t, "failed", a.Status)
	require.Contains(t, a.Message, "GPU 3: 1 uncorrectable error")
	require.Contains(t, a.Results["health"], `"state": "critical"`)

	a = acted(t, "amd", "gpu-health", nil, nil)
	require.Equal(t, "completed", a.Status, a.Message)
	require.Contains(t, a.Results["health"], "GPU 0   healthy ")
	a = acted(t, "no-gpu", "verify-gpu", nil, nil)
	require.Equal(t, "failed", a.Status)
	require.Contains(t, a.Message, "No GPU detected")
	for _, r := range a.Results {
		require.NotContains(t, r, "\x1b")
	}
}

// Juju refuses a parameter of another type, and does not start the charm.
func TestActionsYAMLListsAllActions(t *testing.T) {
	data, err := os.ReadFile("../../../../actions.yaml")
	require.NoError(t, err)
	var declared map[string]struct {
		Params map[string]struct {
			Type string
			Enum []string
		}
		Required []string
	}
	require.NoError(t, yaml.Unmarshal(data, &declared))
	known := slices.Collect(maps.Keys((&Actions{Charm: &charm.Charm{}}).table()))
	require.ElementsMatch(t, known, slices.Collect(maps.Keys(declared)))
	require.Equal(t, "integer", declared["explain-error"].Params["code"].Type)
	for name, a := range declared {
		if f, ok := a.Params["format"]; ok {
			require.Equal(t, []string{"text", "json"}, f.Enum, name)
		}
	}
}

func TestPreflightIsAnActionAndPartOfCheckStatus(t *testing.T) {
	a := acted(t, "no-gpu", "preflight", map[string]any{"format": "json"}, func(c *Actions) { c.Host.Runner = hosttest.NewRunner(t) })
	require.Contains(t, a.Results["checks"], `"name": "series"`)

	h := hosttest.Quiet(t, hosttest.Host(t, "amd"))
	require.NoError(t, model.Save(h.Root, model.Facts{}, model.Facts{Unit: "x/0", Role: model.WorkerRole, Config: map[string]any{"mode": "worker", "compute-runtime": "rocm",
		"release-mirror": "http://127.0.0.1:9", "rocm-base-url": "http://127.0.0.1:9"}}))
	hosttest.Put(t, h.Root, "/proc/sys/user/max_user_namespaces", "0")
	hosttest.Put(t, h.Root, "/proc/cpuinfo", "processor: 0\n")
	var r report
	(&Actions{Charm: &charm.Charm{Host: h}}).checkPreflight(context.Background(), &r)
	text := r.text()
	require.Contains(t, text, "FAILED  preflight user namespaces: /proc/sys/user/max_user_namespaces is 0; unprivileged tasks can't run — sysctl -w")
	require.Contains(t, text, "warn    preflight cpu: 1 processor")
	require.Contains(t, text, "ok      preflight series: Ubuntu noble\n")
}

func TestCheckStatusShowsWarnings(t *testing.T) {
	c := recorded(t, "mi210x4", `{"gpus": [
		{"index": 0, "health": {"state": "healthy", "score": 97, "reason": "nothing wrong with errors"}},
		{"index": 1, "health": {"state": "warning", "score": 70, "reason": "throttled by heat"}},
		{"index": 2, "health": {"state": "critical", "score": 0, "reason": "hangs"}}]}`)
	var r report
	c.checkGPUs(t.Context(), &r)
	require.Equal(t, "ok      gpu 0: healthy nothing wrong with errors\nwarn    gpu 1: throttled by heat\nFAILED  gpu 2: critical: hangs\n", r.text())
	require.Equal(t, []string{"gpu 2: critical: hangs"}, r.failed())

	require.NoError(t, c.Host.Remove(role.GPUReport))
	r = report{}
	c.checkGPUs(t.Context(), &r)
	require.Equal(t, "FAILED  gpu health: GPUs not watched: Pebble is not running: /var/lib/concourse-ci-machine/pebble/.pebble.socket is missing\n"+
		"        run: juju ssh <unit> sudo PEBBLE=/var/lib/concourse-ci-machine/pebble /opt/concourse-ci-machine/bin/pebble logs gpu-reports\n", r.text())
}

// actionsOf returns one run of the charm for an action in this process.
func actionsOf(t *testing.T, r host.Root, m *jujutest.Model, ctx *jujutest.Context, next host.Runner) *Actions {
	t.Helper()
	run := ctx.Runner(next)
	return &Actions{Charm: &charm.Charm{Host: host.Host{Root: r, Runner: run, Clock: hosttest.Clock{T: hosttest.Now}}, Tools: juju.New(run), Event: ctx.Event,
		CharmDir: m.CharmDir, NewID: func() string { return "0badcafe" }, Stderr: io.Discard}}
}
