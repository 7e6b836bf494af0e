package exporter

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/host/hosttest"
)

func TestMetricsOfEveryFixtureHost(t *testing.T) {
	for _, name := range hosttest.HostNames() {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, name)
			got := scrape(t, newTestCollector(r, AMD(r)))
			hosttest.Golden(t, filepath.Join("testdata", name+".prom"), got)
		})
	}
}

func TestSixtyFourGPUsAreAllThere(t *testing.T) {
	r := hosttest.ManyGPUs(t, 64)
	got := scrape(t, newTestCollector(r, AMD(r)))
	for _, name := range []string{"rocm_exporter_device_up", "rocm_gpu_temperature", "rocm_gpu_utilization",
		"rocm_memory_utilization", "rocm_memory_used", "rocm_memory_total", "rocm_power_usage", "rocm_gpu_info"} {
		require.Len(t, series(got, name+"{"), 64, name)
	}
	require.Contains(t, got, `rocm_gpu_temperature{gpu="63",pci_bus_id="0001:dd:00.0",`)
}

// The one name that Prometheus' own rules refuse; see the constants of metrics.
var acceptedLint = map[string]string{
	"rocm_memory_total": `non-counter metrics should not have "_total" suffix`,
}

func TestNamesPassLintButForTheContractsOwn(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	c := newTestCollector(r, AMD(r))
	c.count("0", Failure{File: "gpu_busy_percent", Errno: "EIO"}) // so that the counter is linted too
	problems, err := promlint.New(strings.NewReader(scrape(t, c))).Lint()
	require.NoError(t, err)
	found := map[string]string{}
	for _, p := range problems {
		found[p.Metric] = p.Text
	}
	require.Equal(t, acceptedLint, found)
}

func TestFamiliesAreNamedByTheRules(t *testing.T) {
	seen := map[string]bool{}
	for id, f := range families() {
		require.NotEmpty(t, f.Name, id)
		require.NotEmpty(t, f.Help, f.Name)
		require.False(t, seen[f.Name], f.Name)
		seen[f.Name] = true
		if f.Kind == expo.Counter {
			require.True(t, strings.HasSuffix(f.Name, "_total"), "OpenMetrics wants so: %s", f.Name)
		}
	}
}
