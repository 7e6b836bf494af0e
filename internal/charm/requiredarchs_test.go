package charm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/relation"
	"concourse-ci-machine/internal/status"
)

func TestStatusNamesRequiredArchitecturesThatNoWorkerHas(t *testing.T) {
	o := withWorkers(observedWeb(t, map[string]any{"required-archs": "gfx950,gfx942,gfx1201"}), gpuWorker("gpu/0", 8, false, false))
	require.Equal(t, []status.Cause{{Kind: status.Active, Text: "no worker has gfx950, gfx1201 (required-archs)"}}, DesireWeb(o).Causes)
	one := gpuWorker("gpu/0", 8, false, false)
	one.GPUs.Archs = []relation.ArchCount{{Arch: "gfx950", GPUs: 4}, {Arch: "gfx1201", GPUs: 4}}
	require.Empty(t, DesireWeb(withWorkers(o, one, gpuWorker("gpu/1", 8, true, true))).Causes)
}

func TestExporterCountsTheWorkersOfRequiredArchitectures(t *testing.T) {
	layer := func(set map[string]any) string {
		data, ok := file(DesireWeb(observedWeb(t, set)), PebbleDir+"/layers/001-concourse-exporter.yaml")
		require.True(t, ok)
		return data
	}
	require.Contains(t, layer(map[string]any{"enable-metrics": true, "required-archs": "gfx950,gfx942"}), "--required-archs=gfx950,gfx942")
	require.NotContains(t, layer(map[string]any{"enable-metrics": true}), "required-archs")
}
