package web

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

func TestStatusNamesRequiredArchitecturesThatNoWorkerHas(t *testing.T) {
	o := withWorkers(observedWeb(t, map[string]any{"required-archs": "gfx950,gfx942,gfx1201"}), roletest.GPUWorker("gpu/0", 8))
	require.Equal(t, []status.Cause{{Kind: status.Active, Text: "required-archs: no worker has gfx950, gfx1201"}}, Desire(o, nil).Causes)
	one := roletest.GPUWorker("gpu/0", 8)
	one.GPUs.Archs = []relation.ArchCount{{Arch: "gfx950", GPUs: 4}, {Arch: "gfx1201", GPUs: 4}}
	require.Empty(t, Desire(withWorkers(o, one, roletest.GPUWorker("gpu/1", 8, roletest.Limited)), nil).Causes)
}

func TestStatusNamesRequiredArchitecturesInQuarantine(t *testing.T) {
	o := observedWeb(t, map[string]any{"required-archs": "gfx942"})
	all := []int{0, 1}
	sick, well := roletest.Reporting(roletest.GPUWorker("gpu/0", 2), hosttest.Now, all, nil), roletest.GPUWorker("gpu/1", 2)
	require.Equal(t, []status.Cause{{Kind: status.Active, Text: "required-archs: all GPUs of gfx942 are quarantined"}}, Desire(withWorkers(o, sick), nil).Causes)
	require.Empty(t, Desire(withWorkers(o, sick, well), nil).Causes)
	require.Empty(t, Desire(withWorkers(o, roletest.Reporting(well, hosttest.Now, all[:1], nil)), nil).Causes)
}

func TestExporterCountsTheWorkersOfRequiredArchitectures(t *testing.T) {
	layer := func(set map[string]any) string {
		data, ok := resourcetest.File(Desire(observedWeb(t, set), nil).Resources, role.JobsLayer)
		require.True(t, ok)
		return data
	}
	require.Contains(t, layer(map[string]any{"enable-metrics": true, "required-archs": "gfx950,gfx942"}), "--required-archs=gfx950,gfx942")
	require.NotContains(t, layer(map[string]any{"enable-metrics": true}), "required-archs")
}
