package actions

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// `dispatch rocm plan` works before the first hook, and shows the observed state.
func TestDriverPlanBeforeTheFirstHook(t *testing.T) {
	c := &Actions{Charm: &charm.Charm{Host: host.Host{Root: roletest.DriverHost(t, "metal-blacklisted"), Runner: roletest.DriverCommands(t), Clock: hosttest.Clock{T: hosttest.Now}}}}
	var b strings.Builder
	require.NoError(t, c.ShowDriver(t.Context(), &b))
	require.Contains(t, b.String(), "machine:    metal, ubuntu noble")
	require.Contains(t, b.String(), "driver: none: no driver serves 0000:03:00.0: amdgpu is blacklisted")
	require.Contains(t, b.String(), "\n  1. sudo sed -i '3s/^/# /' /etc/modprobe.d/blacklist-gpu.conf")

	require.NoError(t, model.Save(c.Host.Root, model.Facts{}, model.Facts{Unit: "rocm-worker/3", Config: map[string]any{"mode": "worker", "install-driver": "sometimes"}}))
	b.Reset()
	require.NoError(t, c.ShowDriver(t.Context(), &b))
	require.Contains(t, b.String(), `wrong option: install-driver: "sometimes" is not one of auto, always, replace, never`)
}

// The reset shows its plan and changes nothing by default.
func TestResetShowsItsPlanFirst(t *testing.T) {
	reset := func(r host.Root, run host.Runner, params map[string]any) *jujutest.Action {
		t.Helper()
		m := jujutest.New("rocm-worker/0")
		m.CharmDir = hosttest.CharmDir(t)
		ctx := m.BeginAction("reset-rocm", params)
		require.NoError(t, actionsOf(t, r, m, ctx, run).Action(t.Context()))
		require.NoError(t, ctx.Commit())
		return m.Actions[len(m.Actions)-1]
	}
	r := roletest.DriverHost(t, "metal-mixed")
	a := reset(r, roletest.DriverCommands(t), nil)
	require.Equal(t, "completed", a.Status, a.Message)
	require.Contains(t, a.Results["plan"], "purge rocm-core")
	require.Contains(t, a.Results["plan"], "remove /etc/apt/sources.list.d/amdgpu.list")
	require.Contains(t, a.Results["message"], "nothing was changed")
	require.True(t, r.Exists("/etc/apt/preferences.d/rocm-pin-600"))

	a = reset(r, roletest.DriverCommands(t).Answer("apt-get purge", ""), map[string]any{"apply": true})
	require.Equal(t, "completed", a.Status, a.Message)
	require.False(t, r.Exists("/etc/apt/preferences.d/rocm-pin-600"))
	require.True(t, r.Exists("/etc/apt/preferences.d/ubuntu"))
	require.False(t, r.Exists("/etc/apt/sources.list.d/amdgpu.list"))
	require.True(t, r.Exists("/etc/apt/sources.list.d/more.sources"), "it names others, too")
}

func TestMatrixActionPrintsTheTable(t *testing.T) {
	var b strings.Builder
	require.NoError(t, amd.WriteMatrix(&b))
	require.Equal(t, strings.TrimSpace(b.String()), acted(t, "no-gpu", "rocm-matrix", nil, nil).Results["releases"])
}
