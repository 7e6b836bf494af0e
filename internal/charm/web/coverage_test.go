package web

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
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

func TestGPUsWithoutAnArchitectureAreUnknown(t *testing.T) {
	unit := func(w model.Worker, gpus int) CoveringUnit {
		return CoveringUnit{Unit: w.Unit, Worker: w.Name, GPUs: gpus, Sharing: "shared"}
	}
	some, none, nvidia := roletest.GPUWorker("gpu/0", 3), roletest.GPUWorker("gpu/1", 2), roletest.GPUWorker("gpu/2", 4)
	some.GPUs.Archs = []relation.ArchCount{{Arch: "gfx942", GPUs: 2}}
	none.GPUs.Archs = nil
	nvidia.GPUs.Runtime, nvidia.GPUs.Archs = "cuda", nil
	c := CoverageOf([]model.Worker{some, none, nvidia, roletest.GPUWorker("gpu/3", 0)}, []string{"gfx950"})
	require.Equal(t, []CoveringUnit{unit(some, 1), unit(none, 2)}, c.Unknown)
	require.Equal(t, []CoveringUnit{unit(nvidia, 4)}, c.Others)
	require.Equal(t, []CoveredArch{{Arch: "gfx942", GPUs: 2, Units: []CoveringUnit{unit(some, 2)}},
		{Arch: "gfx950", Required: true, Units: []CoveringUnit{}}}, c.Architectures)
	require.Equal(t, []string{"gfx950"}, c.Missing)
	require.Equal(t, CoveringWorkers{All: 4, GPUs: 3}, c.Workers)
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
