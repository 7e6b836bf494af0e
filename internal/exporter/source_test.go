package exporter

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestRemovedAndReturnedGPUIsDetected(t *testing.T) {
	r := hosttest.Host(t, "amd")
	c := newTestCollector(r, monitor.All(r))
	with := scrape(t, c)
	require.Len(t, lines(with, "rocm_gpu_temperature{"), 1)

	node := r.Path("/dev/dri/renderD128")
	require.NoError(t, os.Rename(node, node+".away"))
	require.Empty(t, lines(scrape(t, c), "rocm_gpu"))

	require.NoError(t, os.Rename(node+".away", node))
	require.Equal(t, with, scrape(t, c))
}

func TestGPUWithoutItsDriverIsDown(t *testing.T) {
	r := exportertest.Put(t, nil)
	got := scrape(t, newTestCollector(r, one))
	require.Contains(t, got, `rocm_exporter_device_up{gpu="0",pci_bus_id="0000:03:00.0",uuid="0000:03:00.0"} 0`)
	require.Empty(t, lines(got, "rocm_gpu_temperature"))
}

// The captures are /sys/class/drm/cardN of real machines.
func TestRealCaptures(t *testing.T) {
	captures := hosttest.Captures(t, "fixtures/sysfs")
	for name, want := range map[string][]string{
		"rx7900xtx/card0": {`rocm_gpu_temperature{} 53`, `rocm_gpu_utilization{} 3`, `rocm_power_usage{} 68`},
		"rx6900xt/card0": {`rocm_gpu_temperature{} 56`, `rocm_gpu_utilization{} 3`, `rocm_memory_total{} 1.7163091968e+10`,
			`rocm_memory_used{} 6.68274688e+08`, `rocm_memory_utilization{} 0`, `rocm_power_usage{} 36`},
		"vega56/card0": {`rocm_gpu_temperature{} 38`, `rocm_gpu_utilization{} 0`, `rocm_memory_total{} 8.573157376e+09`,
			`rocm_memory_used{} 1.6613376e+07`, `rocm_power_usage{} 8`},
		"rx580/card0": {`rocm_gpu_temperature{} 44`, `rocm_gpu_utilization{} 11`, `rocm_memory_total{} 4.294967296e+09`,
			`rocm_memory_used{} 5.36870912e+08`, `rocm_memory_utilization{} 2`, `rocm_power_usage{} 41.045`},
		"phoenix/card1": {`rocm_gpu_temperature{} 25`, `rocm_gpu_utilization{} 0`, `rocm_memory_total{} 3.5728945152e+10`,
			`rocm_memory_used{} 1.484292096e+09`, `rocm_power_usage{} 3.103`},
		"vangogh/card0":        {`rocm_gpu_temperature{} 56`, `rocm_gpu_utilization{} 0`, `rocm_power_usage{} 3.218`},
		"r7-240/card1":         {`rocm_gpu_temperature{} 52`, `rocm_memory_total{} 2.147483648e+09`, `rocm_memory_used{} 4.95321088e+08`},
		"nvidia/rtx4080/card1": nil,
	} {
		t.Run(name, func(t *testing.T) {
			r := host.Root(t.TempDir())
			card := "/sys/class/drm/" + filepath.Base(name)
			require.NoError(t, os.CopyFS(r.Path(card), os.DirFS(filepath.Join(captures, name))))
			text := scrape(t, newTestCollector(r, monitor.All(r)))
			var got []string
			for _, prefix := range []string{"rocm_gpu_temperature{", "rocm_gpu_utilization{", "rocm_memory_", "rocm_power_"} {
				for _, line := range lines(text, prefix) {
					head, _, _ := strings.Cut(line, "{")
					_, value, _ := strings.Cut(line, "}")
					got = append(got, head+"{}"+value)
				}
			}
			require.Equal(t, want, got)
			require.Empty(t, lines(text, "rocm_exporter_read_errors_total{"))
			require.Len(t, lines(text, "rocm_exporter_device_up{"), min(len(want), 1))
		})
	}
}

// What firmware and drivers report of cards at rest is not a fault.
func TestRealCardsAtRestAreHealthy(t *testing.T) {
	captures := hosttest.Captures(t, "fixtures/sysfs")
	for name, want := range map[string]map[string]string{
		"rx7600s/card1":    {"rocm_gpu_healthy{": "1", "rocm_gpu_throttle_status{": "0", `rocm_gpu_clock_min_hertz{clock="gfx"`: "2.55e+08"},
		"rx9070/card1":     {"rocm_gpu_healthy{": "1", "rocm_gpu_throttle_status{": "0", `rocm_gpu_clock_min_hertz{clock="gfx"`: "5e+08"},
		"rx7900xtx/card0":  {"rocm_gpu_healthy{": "1", `rocm_gpu_clock_min_hertz{clock="gfx"`: "5e+08", `rocm_gpu_clock_max_hertz{clock="gfx"`: "2.219e+09"},
		"strixpoint/card1": {`rocm_gpu_activity_ratio{engine="gfx"`: "0.03", `rocm_gpu_clock_min_hertz{clock="gfx"`: "6e+08"},
	} {
		t.Run(name, func(t *testing.T) {
			r := host.Root(t.TempDir())
			require.NoError(t, os.CopyFS(r.Path("/sys/class/drm/"+filepath.Base(name)), os.DirFS(filepath.Join(captures, name))))
			text := scrape(t, newTestCollector(r, monitor.All(r)))
			require.Empty(t, lines(text, "rocm_exporter_read_errors_total{"))
			require.NotRegexp(t, `rocm_gpu_voltage_volts\{.*\} 0\n`, text)
			for prefix, value := range want {
				got := lines(text, prefix)
				require.Len(t, got, 1, prefix)
				require.True(t, strings.HasSuffix(got[0], "} "+value), got[0])
			}
		})
	}
}
