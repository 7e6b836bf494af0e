package exporter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestHungGPULosesOnlyItsOwnSeries(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	list, _, err := monitor.All(r)()
	require.NoError(t, err)
	require.Len(t, list, 4)
	hung := list[1]
	reached, end := exportertest.FIFO(t, r, hung.Sysfs+"/gpu_busy_percent")
	c := newTestCollector(r, monitor.All(r))
	c.deadline = only(hung.Sysfs, reached)
	got := scrape(t, c)
	require.Contains(t, got, `rocm_exporter_device_up{gpu="1",pci_bus_id="`+hung.PCI+`",uuid="GPU-`+hung.UniqueID+`"} 0`)
	require.Len(t, lines(got, "rocm_exporter_device_up{"), 4)
	for _, name := range []string{"rocm_gpu_temperature", "rocm_gpu_utilization", "rocm_power_usage", "rocm_memory_used"} {
		require.Len(t, lines(got, name+"{"), 3, name)
		require.NotContains(t, got, name+`{gpu="1"`)
	}
	require.Contains(t, got, `rocm_exporter_read_errors_total{errno="timeout",file="gpu_busy_percent",gpu="1"} 1`)

	// Asked again, it is neither read a second time nor waited for.
	c.deadline = never
	got = scrape(t, c)
	require.Len(t, lines(got, "rocm_gpu_temperature{"), 3)
	require.Contains(t, got, `errno="timeout",file="gpu_busy_percent",gpu="1"} 2`)
	end("55\n")
}

func TestHungGPUKeepsItsLabels(t *testing.T) {
	r := exportertest.Put(t, map[string]string{"serial_number": "692351000123\n", "vbios_version": "113-X\n",
		"mem_info_vram_total": "1024\n"})
	c := newTestCollector(r, one)
	info := lines(scrape(t, c), "rocm_gpu_info{")
	require.Len(t, info, 1)
	require.Contains(t, info[0], `uuid="692351000123",vbios="113-X"`)

	reached, end := exportertest.FIFO(t, r, dev+"/serial_number")
	c.deadline = only(dev, reached)
	got := scrape(t, c)
	require.Equal(t, info, lines(got, "rocm_gpu_info{"))
	require.Contains(t, got, `rocm_exporter_device_up{gpu="0",pci_bus_id="0000:03:00.0",uuid="692351000123"} 0`)
	end("")
}

func TestErrorCountersAreReadOnATimerAndCached(t *testing.T) {
	r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n", "ras/umc_err_count": "ue: 0\nce: 3\nde: 1\n", "ras/gfx_err_count": "ue: 0\nce: 0\n",
		"ras/sdma_err_count": "Query currently inaccessible\n", "ras/gpu_vram_bad_pages": "0x01 : 0x1000 : P\n0x02 : 0x1000 : R\n"})
	c := newTestCollector(r, one)
	first := scrape(t, c)
	require.Contains(t, first, `rocm_gpu_ras_errors_total{block="umc",gpu="0",pci_bus_id="0000:03:00.0",severity="de",uuid="0000:03:00.0"} 1`)
	require.NotContains(t, first, `block="gfx",gpu="0",pci_bus_id="0000:03:00.0",severity="de"`)
	require.NotContains(t, first, "sdma")
	require.Regexp(t, `rocm_gpu_ecc_errors_uncorrectable\{[^}]*\} 0\n`, first)
	require.Regexp(t, `rocm_gpu_bad_pages\{[^}]*state="pending"[^}]*\} 1\n`, first)

	hosttest.Put(t, r, dev+"/ras/umc_err_count", "ue: 2\nce: 3\nde: 1\n")
	require.Equal(t, first, scrape(t, c), "a scrape does not read them")
	c.Monitor.Poll()
	text := scrape(t, c)
	require.Regexp(t, `rocm_gpu_ecc_errors_uncorrectable\{[^}]*\} 2\n`, text)
	require.Regexp(t, `rocm_gpu_healthy\{[^}]*\} 0\n`, text)

	hosttest.Put(t, r, dev+"/ras/umc_err_count", "Query currently inaccessible\n")
	hosttest.Put(t, r, dev+"/ras/gfx_err_count", "Query currently inaccessible\n")
	c.Monitor.Poll()
	text = scrape(t, c)
	require.Regexp(t, `rocm_gpu_healthy\{[^}]*\} 0\n`, text, "what was counted is not forgotten")
	require.NotContains(t, text, "rocm_gpu_ecc_errors_uncorrectable{")
	require.Empty(t, lines(text, "rocm_exporter_read_errors_total"))
}

// The timer and a scrape never read the same GPU at once.
func TestHungPollMakesTheScrapeWaitAndNotRead(t *testing.T) {
	r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n", "ras/umc_err_count": "ue: 0\nce: 3\n"})
	c := newTestCollector(r, one)
	scrape(t, c)
	reached, end := exportertest.FIFO(t, r, dev+"/ras/umc_err_count")
	now := make(chan time.Time)
	close(now)
	c.deadline = only(dev, now)
	c.Monitor.Poll() // gives up at once
	<-reached
	text := scrape(t, c)
	require.NotContains(t, text, "rocm_gpu_utilization{")
	require.Contains(t, text, `rocm_exporter_read_errors_total{errno="timeout",file="umc_err_count",gpu="0"} 1`)
	require.Regexp(t, `rocm_gpu_hang_info\{[^}]*signal="timeout"[^}]*\} 1\n`, text)
	require.Regexp(t, `rocm_gpu_health_score\{[^}]*\} 0\n`, text)
	end("ue: 0\nce: 5\n")
}

func TestDumpOfADeviceIsAHangWhileItExists(t *testing.T) {
	r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n"})
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
