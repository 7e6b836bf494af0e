package exporter

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const nvidiaReport = "/run/nvidia.json"

// newNVIDIA is a collector of the NVIDIA GPUs of a host.
func newNVIDIA(t testing.TB, hostName, told string) (host.Root, *collector) {
	t.Helper()
	r := hosttest.Host(t, hostName)
	if told != "" {
		hosttest.Put(t, r, nvidiaReport, told)
	}
	return r, newCollector(r, monitor.Of(r, gpu.NVIDIA), monitor.Options{NVIDIA: nvidiaReport, Usage: true, UsageInterval: defaultUsage, UsageContainers: 4})
}

const fullAnswer = `{"at":"2026-01-02T03:04:00Z","gpus":[{"pci":"0000:0a:00.0","uuid":"GPU-7c1e9a42-0d5b-3f86-a917-52ee60b4c3d8","values":{
	"temperature.gpu":61,"temperature.gpu.tlimit":23,"temperature.memory":70,"power.draw":312.44,"power.limit":450,"power.max_limit":600,
	"clocks.current.sm":2520,"clocks.current.memory":10501,"clocks.max.sm":3105,"clocks.max.memory":10501,
	"pcie.link.gen.current":4,"utilization.gpu":97,"utilization.memory":55,"utilization.encoder":0,"utilization.decoder":3,"memory.used":20310,"memory.total":24564,
	"fan.speed":48,"clocks_event_reasons.active":4,"ecc.errors.corrected.volatile.total":3,"ecc.errors.uncorrected.volatile.total":0,
	"remapped_rows.correctable":0,"remapped_rows.uncorrectable":1,"remapped_rows.pending":0,"remapped_rows.failure":0}}]}`

func TestMetricsOfNVIDIAHosts(t *testing.T) {
	for name, of := range map[string]struct{ host, told string }{
		"nvidia-full":  {"nvidia-only", fullAnswer}, // all that can be reported
		"nvidia-proc":  {"nvidia-only", ""},         // no nvidia-smi: /proc and sysfs alone
		"nvidia-sysfs": {"both-passed", ""},         // not even the driver's /proc
	} {
		_, c := newNVIDIA(t, of.host, of.told)
		got := scrape(t, c)
		hosttest.Golden(t, filepath.Join("testdata", name+".prom"), got)
		requireSound(t, got)
		c.shown.DCGM = true
		requireSound(t, scrape(t, c))
	}
}

// A person asked for the GPUs of all vendors, each of which counts its own.
func TestGPUsOfBothVendorsAreShownTogether(t *testing.T) {
	r := hosttest.Host(t, "both-passed")
	c := newTestCollector(r, monitor.All(r))
	got := scrape(t, c)
	requireSound(t, got)
	require.Contains(t, got, "rocm_exporter_gpus 2\n")
	var vendors []string
	for _, g := range c.Report().GPUs {
		vendors = append(vendors, g.Vendor)
		require.Zero(t, g.Index)
	}
	require.Equal(t, []string{"amd", "nvidia"}, vendors)
	require.Len(t, lines(got, "rocm_gpu_health_info{"), 2)
	for _, v := range vendors {
		require.Contains(t, scrape(t, newTestCollector(r, monitor.Of(r, gpu.Vendor(v)))), "rocm_exporter_gpus 1\n")
	}
}

// What an exporter does not know is not a fault, and no health either.
func TestNVIDIAGPUIsJudgedByItsAnswer(t *testing.T) {
	for name, of := range map[string]struct{ told, state, reason string }{
		"nothing": {"", "unknown", "no error counters, no temperature with its limit and no time under limits"},
		"all":     {fullAnswer, "healthy", "3 correctable errors"},
		"old":     {`{"at":"2026-01-02T03:00:00Z","gpus":[{"pci":"0000:0a:00.0","state":"lost","values":{}}]}`, "unknown", "no error counters"},
		"another": {`{"at":"2026-01-02T03:04:00Z","gpus":[{"pci":"0000:0b:00.0","state":"lost","values":{}}]}`, "unknown", "no error counters"},
		"lost":    {`{"at":"2026-01-02T03:04:00Z","gpus":[{"pci":"0000:0a:00.0","state":"lost","values":{}}]}`, "critical", "hangs or is in reset (lost)"},
		"reset":   {`{"at":"2026-01-02T03:04:00Z","gpus":[{"pci":"0000:0a:00.0","state":"needs_reset","values":{}}]}`, "critical", "(needs_reset)"},
		"stuck":   {`{"at":"2026-01-02T03:04:00Z","failure":"timeout","stuck":true,"gpus":[]}`, "critical", "(timeout)"},
		"slow":    {`{"at":"2026-01-02T03:04:00Z","failure":"timeout","gpus":[]}`, "unknown", "no error counters"},
		"ecc":     {`{"at":"2026-01-02T03:04:00Z","gpus":[{"pci":"0000:0a:00.0","values":{"ecc.errors.uncorrected.volatile.total":2}}]}`, "critical", "2 uncorrectable errors"},
		"remap":   {`{"at":"2026-01-02T03:04:00Z","gpus":[{"pci":"0000:0a:00.0","values":{"remapped_rows.failure":1,"remapped_rows.uncorrectable":8}}]}`, "critical", "1 bad memory page"},
		"hot":     {`{"at":"2026-01-02T03:04:00Z","gpus":[{"pci":"0000:0a:00.0","values":{"temperature.gpu":91,"temperature.gpu.tlimit":-1}}]}`, "critical", "gpu at 91 of 90 °C"},
		"heat":    {`{"at":"2026-01-02T03:04:00Z","gpus":[{"pci":"0000:0a:00.0","values":{"temperature.gpu":70,"temperature.gpu.tlimit":20,"clocks_event_reasons.active":104}}]}`, "warning", "throttled by temperature"},
		"mad":     {`{"at":"2026-01-02T03:04:00Z","gpus":[{"pci":"0000:0a:00.0","values":{"temperature.gpu":65535,"ecc.errors.uncorrected.volatile.total":-1}}]}`, "unknown", "no error counters"},
		"damaged": {`{"at":`, "unknown", "no error counters"},
	} {
		_, c := newNVIDIA(t, "nvidia-only", of.told)
		g := c.Report().GPUs[0]
		require.Equal(t, of.state, string(g.Health.State), name)
		require.Contains(t, g.Health.Reason, of.reason, name)
		require.Equal(t, "NVIDIA GeForce RTX 4090", g.Name)
		require.Nil(t, g.Users, "nobody knows")
	}
}

// A failure of nvidia-smi is counted once, however often it is scraped.
func TestFailureOfNVIDIASMIIsCountedOnce(t *testing.T) {
	_, c := newNVIDIA(t, "nvidia-only", `{"at":"2026-01-02T03:04:00Z","failure":"exit_9","gpus":[]}`)
	scrape(t, c)
	require.Contains(t, scrape(t, c), `rocm_exporter_read_errors_total{errno="exit_9",file="nvidia-smi",gpu="0"} 1`)
}

// Its registers read as all ones.
func TestGPUOffTheBusIsLost(t *testing.T) {
	r, c := newNVIDIA(t, "nvidia-only", "")
	dir := c.Monitor.Snapshot().GPUs[0].Slot.Sysfs
	hosttest.Put(t, r, dir+"/config", "\xff\xff\xff\xff\xff\xff\xff\xff")
	hosttest.Put(t, r, dir+"/current_link_speed", "Unknown\n")
	hosttest.Put(t, r, dir+"/current_link_width", "63\n")
	got := scrape(t, c)
	require.Regexp(t, `(?m)^rocm_gpu_hang_info\{.*signal="lost".*\} 1$`, got)
	require.Regexp(t, `(?m)^rocm_exporter_device_up\{.*\} 0$`, got)
	require.Empty(t, lines(got, "rocm_pcie_link"))

	// One that sleeps is not asked: that would wake it.
	hosttest.Put(t, r, dir+"/power/runtime_status", "suspended\n")
	got = scrape(t, c)
	require.Regexp(t, `(?m)^rocm_gpu_hang\{.*\} 0$`, got)
	require.Regexp(t, `(?m)^rocm_gpu_suspended\{.*\} 1$`, got)
}
