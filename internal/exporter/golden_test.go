package exporter

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestMetricsOfEveryFixtureHost(t *testing.T) {
	for _, name := range hosttest.HostNames() {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, name)
			c := newTestCollector(r, monitor.Of(r, gpu.AMD))
			got := scrape(t, c)
			hosttest.Golden(t, filepath.Join("testdata", name+".prom"), got)
			requireSound(t, got)
			c.shown.DCGM = true
			requireSound(t, scrape(t, c))
		})
	}
}

func TestSixtyFourGPUsAreComplete(t *testing.T) {
	r := hosttest.ManyGPUs(t, 64)
	got := scrape(t, newTestCollector(r, monitor.All(r)))
	for _, name := range []string{"rocm_exporter_device_up", "rocm_gpu_temperature", "rocm_gpu_utilization",
		"rocm_memory_utilization", "rocm_memory_used", "rocm_memory_total", "rocm_power_usage", "rocm_gpu_info"} {
		require.Len(t, lines(got, name+"{"), 64, name)
	}
	require.Contains(t, got, `rocm_gpu_temperature{gpu="63",pci_bus_id="0001:dd:00.0",`)
	requireSound(t, got)
}

// The one name that Prometheus' own rules refuse; see the families of package series.
var acceptedLint = map[string]string{
	"rocm_memory_total": `non-counter metrics should not have "_total" suffix`,
}

func TestNamesExceptTheContractsPassLint(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	list, _, err := monitor.All(r)()
	require.NoError(t, err)
	require.NoError(t, r.Remove(list[0].Sysfs+"/gpu_busy_percent"))
	require.NoError(t, os.Mkdir(r.Path(list[0].Sysfs+"/gpu_busy_percent"), 0o755)) // so that the counter is linted too
	text := scrape(t, newTestCollector(r, monitor.All(r)))
	require.Contains(t, text, `rocm_exporter_read_errors_total{errno="EISDIR",file="gpu_busy_percent",gpu="0"} 1`)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	found := map[string]string{}
	for _, p := range problems {
		found[p.Metric] = p.Text
	}
	require.Equal(t, acceptedLint, found)
}

// The exporter's own process is reported among its GPUs, in whatever order the names
// are.
func TestProcessMetricsAreOptional(t *testing.T) {
	c := newTestCollector(exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n"}), one)
	without := scrape(t, c)
	require.NotRegexp(t, `(?m)^(go|process)_`, without)
	c.shown.Process = true
	with := scrape(t, c)
	require.Regexp(t, `(?m)^go_goroutines \d+$`, with)
	require.Regexp(t, `(?m)^process_cpu_seconds_total `, with)
	requireSound(t, with)
	for _, prefix := range []string{"rocm_", "# HELP rocm_", "# TYPE rocm_"} {
		require.Equal(t, lines(without, prefix), lines(with, prefix))
	}
}
