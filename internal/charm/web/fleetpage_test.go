package web

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

func fleetFileOf(t *testing.T, o Observed) fleetfile.File {
	t.Helper()
	data, ok := resourcetest.File(Desire(o, nil).Resources, role.FleetFile)
	require.True(t, ok)
	f, err := fleetfile.Parse([]byte(data))
	require.NoError(t, err)
	return f
}

func TestFleetPageGetsWorkersWithTheirAddresses(t *testing.T) {
	o := observedWeb(t, map[string]any{"enable-metrics": true, "required-archs": "gfx942", "external-url": "https://ci.example.com"})
	sick := roletest.Reporting(roletest.GPUWorker("gpu/0", 2), hosttest.Now, []int{1}, nil)
	sick.Address = "fd00::5"
	odd, plain := roletest.GPUWorker("gpu/1", 1), roletest.GPUWorker("gpu/2", 0)
	odd.Address, plain.Address = "10.0.0.9/x?y", "10.0.0.7"
	o.Facts.Web.Peers = []string{"10.0.0.4"}
	f := fleetFileOf(t, withWorkers(o, sick, odd, plain))
	require.Equal(t, "https://ci.example.com", f.Concourse)
	require.Equal(t, []string{"http://127.0.0.1:9391/metrics", "http://10.0.0.4:9391/metrics"}, f.Metrics)
	require.Equal(t, []string{"gfx942"}, f.RequiredArchs)
	require.False(t, f.HideNames)
	require.Equal(t, []fleetfile.Worker{
		{Unit: "gpu/0", Name: "gpu-0", URL: "http://[fd00::5]:9401", Count: 2, Published: &hosttest.Now,
			GPUs: []fleetfile.GPU{{Index: 0, GFX: "gfx942", Model: "AMD Instinct", Service: "in_service"}, {Index: 1, GFX: "gfx942", Model: "AMD Instinct", Service: "quarantined"}}},
		{Unit: "gpu/1", Name: "gpu-1", Count: 1}, // a link must lead to a worker
		{Unit: "gpu/2", Name: "gpu-2", URL: "http://10.0.0.7:9401"},
	}, f.Workers)
}

func TestFleetPageHidesNamesOrIsOff(t *testing.T) {
	layer := func(o Observed) string {
		data, ok := resourcetest.File(Desire(o, nil).Resources, role.JobsLayer)
		require.True(t, ok)
		return data
	}
	o := observedWeb(t, map[string]any{"enable-metrics": true, "fleet-page": "anonymous"})
	require.True(t, fleetFileOf(t, o).HideNames)
	require.Contains(t, layer(o), "--fleet.file="+role.FleetFile)
	require.Equal(t, layer(o), layer(withWorkers(o, roletest.GPUWorker("gpu/0", 2))), "a worker restarts nothing")

	o = observedWeb(t, map[string]any{"enable-metrics": true, "fleet-page": "off"})
	require.NotContains(t, layer(o), "--fleet.file")
	for _, set := range []map[string]any{{"enable-metrics": true, "fleet-page": "off"}, {"enable-metrics": false}} {
		require.Contains(t, Desire(observedWeb(t, set), nil).Resources, resource.Absent{Path: role.FleetFile,
			Why: map[bool]string{true: "fleet-page is off", false: "enable-metrics is off"}[set["enable-metrics"].(bool)]})
	}
}

func TestFileOfWorkersHasTheURLOfThePage(t *testing.T) {
	o := observedWeb(t, map[string]any{"enable-metrics": true})
	o.Facts.Web.Address = "10.0.0.10"
	require.Equal(t, "http://10.0.0.10:9358/", fleetFileOf(t, o).Page)
	require.Contains(t, Desire(o, nil).Resources, resource.Dir{Path: role.JobsFolder, Mode: 0o700, Owner: "concourse"})
}
