package exporter

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/host/hosttest"
)

func newMemory() *[]expo.Sample { return new([]expo.Sample) }

func TestErrorCountersAreReadOnATimerAndCached(t *testing.T) {
	r := put(t, map[string]string{"gpu_busy_percent": "5\n", "ras/umc_err_count": "ue: 0\nce: 3\nde: 1\n", "ras/gfx_err_count": "ue: 0\nce: 0\n",
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
	c.Poll()
	text := scrape(t, c)
	require.Regexp(t, `rocm_gpu_ecc_errors_uncorrectable\{[^}]*\} 2\n`, text)
	require.Regexp(t, `rocm_gpu_healthy\{[^}]*\} 0\n`, text)

	hosttest.Put(t, r, dev+"/ras/umc_err_count", "Query currently inaccessible\n")
	hosttest.Put(t, r, dev+"/ras/gfx_err_count", "Query currently inaccessible\n")
	c.Poll()
	require.Regexp(t, `rocm_gpu_healthy\{[^}]*\} 0\n`, scrape(t, c), "what was counted is not forgotten")
	require.Empty(t, series(text, "rocm_exporter_read_errors_total"))
}

func TestPollLeavesASleepingGPUAlone(t *testing.T) {
	r := put(t, map[string]string{"gpu_busy_percent": "5\n", "power/runtime_status": "active\n", "ras/umc_err_count": "ue: 0\nce: 3\n"})
	c := newTestCollector(r, one)
	scrape(t, c)
	hosttest.Put(t, r, dev+"/power/runtime_status", "suspended\n")
	hosttest.Put(t, r, dev+"/ras/umc_err_count", "ue: 0\nce: 4\n")
	c.Poll()
	text := scrape(t, c)
	require.Regexp(t, `severity="ce"[^}]*\} 3\n`, text)
	require.Regexp(t, `rocm_gpu_suspended\{[^}]*\} 1\n`, text)
	require.NotContains(t, text, "rocm_gpu_utilization{")
}

// The timer and a scrape never read the same GPU at once.
func TestHungPollMakesTheScrapeWaitAndNotRead(t *testing.T) {
	r := put(t, map[string]string{"gpu_busy_percent": "5\n", "ras/umc_err_count": "ue: 0\nce: 3\n"})
	c := newTestCollector(r, one)
	scrape(t, c)
	reached, end := fifo(t, r, dev+"/ras/umc_err_count")
	now := make(chan time.Time)
	close(now)
	c.deadline = func(dir string) <-chan time.Time { return map[string]chan time.Time{dev: now}[dir] }
	c.Poll() // gives up at once
	<-reached
	text := scrape(t, c)
	require.NotContains(t, text, "rocm_gpu_utilization{")
	require.Contains(t, text, `rocm_exporter_read_errors_total{errno="timeout",file="umc_err_count",gpu="0"} 1`)
	require.Regexp(t, `rocm_gpu_hang_info\{[^}]*signal="timeout"[^}]*\} 1\n`, text)
	require.Regexp(t, `rocm_gpu_health_score\{[^}]*\} 0\n`, text)
	end("ue: 0\nce: 5\n")
}

func TestDescriptorsFollowTheDevice(t *testing.T) {
	r := put(t, map[string]string{"gpu_busy_percent": "5\n", "hwmon/hwmon4/name": "amdgpu\n", "hwmon/hwmon4/power1_input": "90000000\n"})
	c := newTestCollector(r, one)
	require.Regexp(t, `rocm_power_usage\{[^}]*\} 90\n`, scrape(t, c))

	// The driver is bound again: another hwmon.
	require.NoError(t, os.RemoveAll(r.Path(dev+"/hwmon/hwmon4")))
	hosttest.Put(t, r, dev+"/hwmon/hwmon7/name", "amdgpu\n")
	hosttest.Put(t, r, dev+"/hwmon/hwmon7/power1_input", "95000000\n")
	require.Regexp(t, `rocm_power_usage\{[^}]*\} 95\n`, scrape(t, c))

	// The device is removed and found again: another directory.
	require.NoError(t, os.RemoveAll(r.Path(dev)))
	require.Regexp(t, `rocm_exporter_device_up\{[^}]*\} 0\n`, scrape(t, c))
	hosttest.Put(t, r, dev+"/gpu_busy_percent", "77\n")
	c.now = func() time.Time { return hosttest.Now.Add(2 * searchEvery) }
	require.Regexp(t, `rocm_gpu_utilization\{[^}]*\} 77\n`, scrape(t, c))

	// A file that is written anew beside the old one.
	hosttest.Put(t, r, dev+"/new", "78\n")
	require.NoError(t, os.Rename(r.Path(dev+"/new"), r.Path(dev+"/gpu_busy_percent")))
	require.Regexp(t, `rocm_gpu_utilization\{[^}]*\} 78\n`, scrape(t, c))
}

func TestDescriptorsOfGPUsThatAreGoneAreClosed(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	before := open()
	r := hosttest.ManyGPUs(t, 16)
	list, err := AMD(r)()
	require.NoError(t, err)
	c := newTestCollector(r, func() ([]Device, error) { return list, nil })
	scrape(t, c)
	require.Greater(t, open(), before+16*8)
	list = nil
	c.now = func() time.Time { return hosttest.Now.Add(2 * searchEvery) }
	cards := c.cards
	held := make([]*card, 0, len(cards))
	for _, card := range cards {
		held = append(held, card)
	}
	scrape(t, c)
	for _, card := range held { // each is closed by a goroutine that holds it
		for closed := false; !closed; {
			card.hold()
			closed = !card.opened
			card.release()
		}
	}
	require.LessOrEqual(t, open(), before+4)
}

func TestClockRange(t *testing.T) {
	for text, want := range map[string][2]float64{
		"0: 500Mhz \n1: 2310Mhz *\n2: 2525Mhz \n": {500, 2525},
		"S: 19Mhz *\n0: 615Mhz\n1: 800Mhz":        {615, 800},
		"0: 132Mhz *":                             {132, 132},
	} {
		low, high, ok := clockRange(text)
		require.True(t, ok)
		require.Equal(t, want, [2]float64{low, high})
	}
	for _, text := range []string{"", "0: 2.5GT/s, x16 619Mhz", "OD_SCLK:\n", "0: 0Mhz"} {
		_, _, ok := clockRange(text)
		require.False(t, ok, text)
	}
}

func FuzzSlowTexts(f *testing.F) {
	for _, s := range []string{"ue: 0\nce: 3\nde: 1\n", "Query currently inaccessible\n", "0x01 : 0x1000 : R\n", "0: 500Mhz *\n", "1 2 3",
		"Fatal Error: count:2, last_seqno:7\n", "4,812,93847562,-;amdgpu 0000:03:00.0: amdgpu: ring gfx timeout, signaled seq=17\n", "temp1_label"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, ok := parseCounts(text); ok {
			require.True(t, n[0] >= 0 || n[1] >= 0 || n[2] >= 0)
		}
		counts, total := countPages(text)
		require.Equal(t, total, counts["R"]+counts["P"]+counts["F"])
		if low, high, ok := clockRange(text); ok {
			require.True(t, low > 0 && low <= high)
		}
		if n, ok := fatalEvents(text); ok {
			require.GreaterOrEqual(t, n, int64(0))
		}
		if rx, tx, ok := parseTraffic(text); ok {
			require.True(t, rx >= 0 && tx >= 0)
		}
		if pci, ok := hungDevice(text); ok {
			require.Contains(t, text, "amdgpu "+pci+": ")
			require.False(t, strings.ContainsAny(pci, " \n/"))
		}
	})
}
