package web

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// A flag that the release does not take would keep the web from starting.
func TestWebRunsWithoutARefusedFlag(t *testing.T) {
	o := observedWeb(t, map[string]any{"extra-web-flags": "--max-check-per-second=1 --enable-across-step"})
	h := hosttest.Quiet(t, hosttest.Root(t))
	require.NoError(t, o.observeFlags(t.Context(), h))
	require.True(t, Desire(o, nil).UncheckedFlags, "no release is installed that could check")

	o.Installed, o.InstalledID = "8.2.5", "8.2.5"
	program := h.Path(release.BinDir+"/concourse") + " web "
	h.Runner = hosttest.NewRunner(t).Fail(program+"--max-check-per-second=1", 1, "error: unknown flag").Answer(program+"--enable-across-step", "Usage:")
	require.NoError(t, o.observeFlags(t.Context(), h))
	d := Desire(o, nil)
	unit, _ := resourcetest.File(d.Resources, concourse.WebUnitFile)
	require.Contains(t, unit, ` web "--enable-across-step"`)
	require.NotContains(t, unit, "--max-check-per-second")
	require.Equal(t, []status.Cause{status.Block("extra-web-flags: Concourse 8.2.5 refuses --max-check-per-second").
		Explain("unknown flag; the web runs without it")}, d.Causes)
	require.False(t, d.UncheckedFlags)
	require.True(t, d.Up)

	kept, _ := resourcetest.File(d.Resources, FlagsFile)
	require.NoError(t, h.WriteFile(FlagsFile, []byte(kept), 0o600))
	h.Runner = hosttest.NewRunner(t)
	again := o
	again.Flags = checkedFlags{}
	require.NoError(t, again.observeFlags(t.Context(), h), "the result is kept")
	require.Equal(t, o.Flags, again.Flags)

	o.InstalledID = "8.2.6"
	h.Runner = hosttest.NewRunner(t).Fail(program[:len(program)-1], -1, "")
	require.NoError(t, o.observeFlags(t.Context(), h))
	require.Empty(t, o.Flags, "another release checks them again; one that does not run refuses none")
	o = observedWeb(t, nil)
	require.True(t, resourcetest.Absent(Desire(o, nil).Resources, FlagsFile))
}

// The web runs without them, so they replace neither the charm's limit nor its receiver.
func TestRefusedFlagsReplaceNothing(t *testing.T) {
	const limit, traces = "--max-active-tasks-per-worker=many", "--tracing-otlp-address="
	o := withWorkers(observedWeb(t, map[string]any{"extra-web-flags": limit + " " + traces}), roletest.GPUWorker("a/0", 2, roletest.Exclusive))
	o.Facts.Watchers.Tracing = &model.Relation{App: "tempo", Remote: map[string]string{
		"receivers": `[{"protocol": {"name": "otlp_grpc", "type": "grpc"}, "url": "tempo:4317"}]`}}
	with := webEnv(t, Desire(o, nil))
	require.NotContains(t, with, concourse.TaskLimitKey)
	require.NotContains(t, with, "CONCOURSE_TRACING_OTLP_ADDRESS")
	o.Flags.Refused = []concourse.RefusedFlag{{Flag: limit, Why: "no number"}, {Flag: traces, Why: "no address"}}
	without := webEnv(t, Desire(o, nil))
	require.Equal(t, "2", without[concourse.TaskLimitKey])
	require.Equal(t, "tempo:4317", without["CONCOURSE_TRACING_OTLP_ADDRESS"])
}
