package exporter

import (
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestAliasesOfDCGMHaveItsUnits(t *testing.T) {
	r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n", "mem_info_vram_total": "21474836480\n", "mem_info_vram_used": "1073741824\n"})
	c := newTestCollector(r, one)
	require.NotContains(t, scrape(t, c), "DCGM")
	c = newTestCollector(r, one)
	c.shown.DCGM = true
	text := scrape(t, c)
	require.Contains(t, text, `DCGM_FI_DEV_FB_USED{UUID="0000:03:00.0",gpu="0",modelName="",pci_bus_id="0000:03:00.0",uuid="0000:03:00.0"} 1024`)
	require.Regexp(t, `DCGM_FI_DEV_FB_TOTAL\{[^}]*\} 20480\n`, text)
	require.Regexp(t, `DCGM_FI_DEV_FB_FREE\{[^}]*\} 19456\n`, text)
	require.Regexp(t, `DCGM_FI_DEV_GPU_UTIL\{[^}]*\} 5\n`, text)
}

// byGPU are the values of a metric by the label gpu.
func byGPU(t *testing.T, text, name string) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, line := range lines(text, name+"{") {
		_, rest, _ := strings.Cut(line, `gpu="`)
		gpu, _, _ := strings.Cut(rest, `"`)
		v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		require.NoError(t, err)
		out[gpu] = v
	}
	return out
}

// Whoever reads one of them must not find another GPU, or less of it, than who reads the
// other two.
func TestMetricsTheirAliasesAndTheAPIAgree(t *testing.T) {
	for _, name := range hosttest.HostNames() {
		r := hosttest.Host(t, name)
		c := newTestCollector(r, monitor.Of(r, gpu.AMD))
		c.shown.DCGM = true
		text, report := scrape(t, c), c.Report()
		for _, v := range []struct {
			metric, alias string
			per, aliasPer float64 // of one of the API's
			api           func(*api.Status) *float64
		}{
			{"rocm_gpu_temperature", "DCGM_FI_DEV_GPU_TEMP", 1, 1, nil}, // the API has the sensor nearest its limit
			{"rocm_gpu_utilization", "DCGM_FI_DEV_GPU_UTIL", 100, 100, func(s *api.Status) *float64 { return s.Activity }},
			{"rocm_memory_utilization", "DCGM_FI_DEV_MEM_COPY_UTIL", 100, 100, func(s *api.Status) *float64 { return s.MemoryActivity }},
			{"rocm_memory_used", "DCGM_FI_DEV_FB_USED", 1, 1. / (1 << 20), func(s *api.Status) *float64 { return s.MemoryUsed }},
			{"rocm_memory_total", "DCGM_FI_DEV_FB_TOTAL", 1, 1. / (1 << 20), func(s *api.Status) *float64 { return s.MemoryTotal }},
			{"rocm_power_usage", "DCGM_FI_DEV_POWER_USAGE", 1, 1, func(s *api.Status) *float64 { return s.Power }},
			{"rocm_gpu_ecc_errors_uncorrectable", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 1, 1, nil},
		} {
			want := byGPU(t, text, v.metric)
			scaled := map[string]float64{}
			for gpu, value := range want {
				scaled[gpu] = value / v.per * v.aliasPer
			}
			require.InDeltaMapValues(t, scaled, byGPU(t, text, v.alias), 1e-3, "%s of %s", v.alias, name)
			if v.api == nil {
				continue
			}
			told := map[string]float64{}
			for i := range report.GPUs {
				if value := v.api(&report.GPUs[i]); value != nil {
					told[strconv.Itoa(report.GPUs[i].Index)] = *value * v.per
				}
			}
			require.InDeltaMapValues(t, want, told, 1e-3, "%s of %s in the API", v.metric, name)
		}
	}
}

func TestPCIeTrafficIsReadOnlyIfEnabled(t *testing.T) {
	r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n", "pcie_bw": "1000 500 256\n"})
	c := newTestCollector(r, one)
	inBackground(t, c.Monitor.Watch)
	require.NotContains(t, scrape(t, c), "rocm_pcie_tx", "it takes a second, and is not wanted")

	c = newCollector(r, one, monitor.Options{PCIeBandwidth: true})
	c.shown.DCGM = true
	require.NotContains(t, scrape(t, c), "rocm_pcie_tx", "nor in a scrape")
	synctest.Test(t, func(t *testing.T) {
		go c.Monitor.Watch(t.Context())
		synctest.Wait()
		text := scrape(t, c)
		require.Regexp(t, `DCGM_FI_DEV_PCIE_TX_THROUGHPUT\{[^}]*\} 128\n`, text)
		require.Regexp(t, `rocm_pcie_rx\{[^}]*\} 256000\n`, text)
		require.Regexp(t, `rocm_pcie_tx\{[^}]*\} 128000\n`, text)
		hosttest.Put(t, r, dev+"/power/runtime_status", "suspended\n")
		time.Sleep(31 * time.Second) // of the bubble's clock: the next reading
		synctest.Wait()
		require.NotContains(t, scrape(t, c), "rocm_pcie_tx")
	})
}

func TestScrapeIsCompressedAndInOpenMetricsOnRequest(t *testing.T) {
	h := newTestCollector(exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n"}), one).handler()
	get := func(headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/metrics", nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	require.Empty(t, get().Header().Get("Content-Encoding"))
	zipped := get("Accept-Encoding", "gzip")
	require.Equal(t, "gzip", zipped.Header().Get("Content-Encoding"))
	require.Equal(t, []byte{0x1f, 0x8b}, zipped.Body.Bytes()[:2])
	open := get("Accept", "application/openmetrics-text;version=1.0.0")
	require.Contains(t, open.Header().Get("Content-Type"), "application/openmetrics-text")
	require.Contains(t, open.Body.String(), "# TYPE rocm_gpu_hang_events counter\nrocm_gpu_hang_events_total{")
	require.Regexp(t, "# EOF\n$", open.Body.String())
}

// Several Prometheus servers, each with its own rhythm, while values and GPUs change.
func TestConcurrentScrapesAreComplete(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	c := newTestCollector(r, monitor.All(r))
	h := c.handler()
	list, _, err := monitor.All(r)()
	require.NoError(t, err)
	texts := make(chan string, 4*4)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 4 {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
				texts <- w.Body.String()
			}
		})
	}
	for i := range 8 {
		hosttest.Put(t, r, list[i%4].Sysfs+"/vcn_busy_percent", "7\n") // a series that was not there before
		c.Monitor.Reload()
		c.Monitor.Poll()
	}
	all.Wait()
	close(texts)
	for text := range texts {
		requireSound(t, text)
		require.Len(t, lines(text, "rocm_gpu_temperature{"), 4)
	}
}
