package exporter

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/host/hosttest"
)

func TestReadingsThatAreRefusedForLongAreAReset(t *testing.T) {
	var h hangState
	now := hosttest.Now
	poll := func(err error, awake bool) []string {
		h.begin()
		if err == nil {
			h.answered++
		} else {
			h.asked(err)
		}
		h.end(now, awake)
		now = now.Add(3 * time.Second)
		return h.now
	}
	for _, refused := range []error{unix.EPERM, unix.EBUSY} {
		require.Empty(t, poll(refused, true))
		require.Empty(t, poll(refused, true))
		require.Equal(t, []string{signalReset}, poll(refused, true))
		require.Empty(t, poll(nil, true), "it is back")
	}
	require.Equal(t, 2.0, h.total)
	require.Equal(t, 2, h.inDay(now))
	require.Equal(t, 0, h.inDay(now.Add(day)))
	for range 5 {
		require.Empty(t, poll(unix.EPERM, false), "a sleeping GPU refuses as well")
		require.Empty(t, poll(unix.EIO, true), "a fault is not a refusal")
	}
}

func TestDumpOfADeviceIsAHangWhileItIsThere(t *testing.T) {
	r := put(t, map[string]string{"gpu_busy_percent": "5\n"})
	c := newTestCollector(r, one)
	require.Regexp(t, `rocm_gpu_hang\{[^}]*\} 0\n`, scrape(t, c))
	hosttest.Link(t, r, "/sys/class/devcoredump/devcd1/failing_device", "../../../devices/pci0000:00/0000:03:00.0")
	text := scrape(t, c)
	require.Regexp(t, `rocm_gpu_hang\{[^}]*\} 1\n`, text)
	require.Regexp(t, `rocm_gpu_hang_info\{[^}]*signal="devcoredump"[^}]*\} 1\n`, text)
	require.Regexp(t, `rocm_gpu_health_info\{[^}]*state="critical"`, text)
	require.NoError(t, r.Remove("/sys/class/devcoredump/devcd1/failing_device"))
	text = scrape(t, c)
	require.Regexp(t, `rocm_gpu_hang\{[^}]*\} 0\n`, text)
	require.Regexp(t, `rocm_gpu_hang_events_total\{[^}]*\} 1\n`, text)
	require.NotContains(t, text, "rocm_gpu_hang_info{")
}

func TestFatalErrorsThatAreNewAreAHang(t *testing.T) {
	state := func(n string) string { return "current seqno: 9\nFatal Error: count:" + n + ", last_seqno:1\n" }
	r := put(t, map[string]string{"gpu_busy_percent": "5\n", "ras/event_state": state("4")})
	c := newTestCollector(r, one)
	require.Regexp(t, `rocm_gpu_hang\{[^}]*\} 0\n`, scrape(t, c), "what was before the exporter is no news")
	hosttest.Put(t, r, dev+"/ras/event_state", state("5"))
	c.Poll()
	require.Regexp(t, `rocm_gpu_hang_info\{[^}]*signal="ras_fatal"[^}]*\} 1\n`, scrape(t, c))
	c.now = func() time.Time { return hosttest.Now.Add(afterEvent) }
	require.Regexp(t, `rocm_gpu_hang\{[^}]*\} 0\n`, scrape(t, c))
}

func TestKernelLogTellsOfTheRightGPU(t *testing.T) {
	r := put(t, map[string]string{"gpu_busy_percent": "5\n"})
	c := newTestCollector(r, one)
	for _, record := range []string{
		"4,812,93847562,-;amdgpu 0000:43:00.0: amdgpu: GPU reset begin!\n",
		"12,813,93847563,-;amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n", // a process wrote it
		"6,814,93847564,-;amdgpu 0000:03:00.0: amdgpu: SMU is initialized successfully!\n",
		"4,815,93847565,-;nouveau 0000:03:00.0: GPU reset begin!\n",
		"no record",
	} {
		c.kernel.record(record, hosttest.Now)
	}
	require.Regexp(t, `rocm_gpu_hang\{[^}]*\} 0\n`, scrape(t, c))
	c.kernel.record("4,816,93847566,-;amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=17, emitted seq=19\n SUBSYSTEM=pci\n", hosttest.Now)
	require.Regexp(t, `rocm_gpu_hang_info\{[^}]*signal="kernel_log"[^}]*\} 1\n`, scrape(t, c))
}

func TestAliasesOfDCGMHaveItsUnits(t *testing.T) {
	r := put(t, map[string]string{"gpu_busy_percent": "5\n", "mem_info_vram_total": "21474836480\n", "mem_info_vram_used": "1073741824\n"})
	c := newTestCollector(r, one)
	require.NotContains(t, scrape(t, c), "DCGM")
	c = newTestCollector(r, one)
	c.options.DCGM = true
	text := scrape(t, c)
	require.Contains(t, text, `DCGM_FI_DEV_FB_USED{UUID="0000:03:00.0",gpu="0",modelName="",pci_bus_id="0000:03:00.0",uuid="0000:03:00.0"} 1024`)
	require.Regexp(t, `DCGM_FI_DEV_FB_TOTAL\{[^}]*\} 20480\n`, text)
	require.Regexp(t, `DCGM_FI_DEV_FB_FREE\{[^}]*\} 19456\n`, text)
	require.Regexp(t, `DCGM_FI_DEV_GPU_UTIL\{[^}]*\} 5\n`, text)
}

func TestPCIeTrafficIsReadOnlyWhenAskedFor(t *testing.T) {
	r := put(t, map[string]string{"gpu_busy_percent": "5\n", "pcie_bw": "1000 500 256\n"})
	c := newTestCollector(r, one)
	require.NotContains(t, scrape(t, c), "rocm_pcie_tx")
	c.readTraffic()
	c.options.DCGM = true
	text := scrape(t, c)
	require.Regexp(t, `DCGM_FI_DEV_PCIE_TX_THROUGHPUT\{[^}]*\} 128\n`, text)
	require.Regexp(t, `rocm_pcie_rx\{[^}]*\} 256000\n`, text)
	require.Regexp(t, `rocm_pcie_tx\{[^}]*\} 128000\n`, text)
	hosttest.Put(t, r, dev+"/power/runtime_status", "suspended\n")
	c.readTraffic()
	require.NotContains(t, scrape(t, c), "rocm_pcie_tx")
}

func TestDriverMatch(t *testing.T) {
	const modules = "/lib/modules/6.8.0-45-generic/modules.dep"
	for name, c := range map[string]struct {
		version, dep string
		want         string
	}{
		"the kernel's own":                      {"", "kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko.zst: kernel/x.ko.zst\n", `{running="kernel",selected="kernel"} 1`},
		"AMD's, built and in use":               {"6.10.5\n", "kernel/a.ko:\nupdates/dkms/amdgpu.ko.zst:\n", `{running="dkms",selected="dkms"} 1`},
		"AMD's is built, the kernel's in use":   {"", "updates/dkms/amdgpu.ko.zst:\n", `{running="kernel",selected="dkms"} 0`},
		"AMD's in use, gone from the disk":      {"6.10.5\n", "kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko:\n", `{running="dkms",selected="kernel"} 0`},
		"a container without modules":           {"", "", ""},
		"a list without the driver is no list":  {"", "kernel/drivers/amdgpu_other.ko:\n", ""},
		"a path that leaves the tree is no one": {"", "../../amdgpu.ko:\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := put(t, map[string]string{"gpu_busy_percent": "5\n"})
			hosttest.Put(t, r, "/proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
			hosttest.Put(t, r, "/sys/module/amdgpu/srcversion", "ABC\n")
			if c.version != "" {
				hosttest.Put(t, r, "/sys/module/amdgpu/version", c.version)
			}
			if c.dep != "" {
				hosttest.Put(t, r, modules, c.dep)
			}
			got := series(scrape(t, newTestCollector(r, one)), "concourse_gpu_driver_match")
			if c.want == "" {
				require.Empty(t, got)
				return
			}
			require.Equal(t, []string{"concourse_gpu_driver_match" + c.want}, got)
		})
	}
}

func TestGPUsAsJSON(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	w := httptest.NewRecorder()
	Handler(newTestCollector(r, AMD(r))).ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/gpus", nil))
	require.Equal(t, http.StatusOK, w.Code)
	var got struct{ GPUs []Status }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.Len(t, got.GPUs, 4)
	bad := got.GPUs[3]
	require.Equal(t, "critical", string(bad.Health.State))
	require.Equal(t, 30.0, *bad.Health.Score)
	require.Equal(t, "1 uncorrectable error; 1 bad memory page", bad.Health.Reason)
	require.Equal(t, 41.0, *bad.Temperature, "the sensor nearest its limit, not the edge")
	require.Equal(t, 99.0, *bad.TemperatureLimit)
	require.Equal(t, "mem", bad.Sensor)
	require.Equal(t, 44.0, *bad.Power)
	require.Equal(t, 300.0, *bad.PowerCap)
	require.InDelta(t, .03, *bad.Activity, 1e-9)

	r = hosttest.Host(t, "apu-gfx1103")
	apu := newTestCollector(r, AMD(r)).Status()
	require.Equal(t, "unknown", string(apu[0].Health.State))
	require.Nil(t, apu[0].Health.Score)
	require.Nil(t, apu[0].TemperatureLimit)
}

func TestScrapeIsCompressedAndInOpenMetricsOnlyForWhoAsks(t *testing.T) {
	h := Handler(newTestCollector(put(t, map[string]string{"gpu_busy_percent": "5\n"}), one))
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
}
