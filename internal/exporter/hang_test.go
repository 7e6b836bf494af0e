package exporter

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/host/hosttest"
)

func TestHungGPUCostsItsOwnSeriesOnly(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	list, err := AMD(r)()
	require.NoError(t, err)
	require.Len(t, list, 4)
	hung := list[1]
	reached, end := fifo(t, r, hung.Dir+"/gpu_busy_percent")
	c := newTestCollector(r, AMD(r))
	c.deadline = func(dir string) <-chan time.Time {
		if dir == hung.Dir {
			return reached
		}
		return nil
	}
	got := scrape(t, c)
	require.Contains(t, got, `rocm_exporter_device_up{gpu="1",pci_bus_id="`+hung.PCI+`",uuid="GPU-`+hung.UniqueID+`"} 0`)
	require.Len(t, series(got, "rocm_exporter_device_up{"), 4)
	for _, name := range []string{"rocm_gpu_temperature", "rocm_gpu_utilization", "rocm_power_usage", "rocm_memory_used"} {
		require.Len(t, series(got, name+"{"), 3, name)
		require.NotContains(t, got, name+`{gpu="1"`)
	}
	require.Contains(t, got, `rocm_exporter_read_errors_total{errno="timeout",file="gpu_busy_percent",gpu="1"} 1`)

	// Asked again, it is neither read a second time nor waited for.
	c.deadline = never
	got = scrape(t, c)
	require.Len(t, series(got, "rocm_gpu_temperature{"), 3)
	require.Contains(t, got, `errno="timeout",file="gpu_busy_percent",gpu="1"} 2`)
	open := outstanding(c)
	require.Len(t, open, 1)

	// When the driver answers at last, the GPU is back.
	end("55\n")
	<-open[0].done
	require.NoError(t, r.Remove(hung.Dir+"/gpu_busy_percent"))
	hosttest.Put(t, r, hung.Dir+"/gpu_busy_percent", "56\n")
	got = scrape(t, c)
	require.Len(t, series(got, "rocm_gpu_temperature{"), 4)
	require.Regexp(t, `rocm_gpu_utilization\{gpu="1",[^}]*\} 56`, got)
	require.Empty(t, outstanding(c))
}

func outstanding(c *Collector) []*flight[Sample] {
	c.reads.mu.Lock()
	defer c.reads.mu.Unlock()
	return slices.Collect(maps.Values(c.reads.open))
}

func TestHungGPUKeepsTheLabelsItHad(t *testing.T) {
	r := put(t, map[string]string{"serial_number": "692351000123\n", "vbios_version": "113-X\n",
		"mem_info_vram_total": "1024\n"})
	c := newTestCollector(r, one)
	info := series(scrape(t, c), "rocm_gpu_info{")
	require.Len(t, info, 1)
	require.Contains(t, info[0], `uuid="692351000123",vbios="113-X"`)

	reached, end := fifo(t, r, dev+"/serial_number")
	c.deadline = func(dir string) <-chan time.Time { return map[string]chan time.Time{dev: reached}[dir] }
	got := scrape(t, c)
	require.Equal(t, info, series(got, "rocm_gpu_info{"))
	require.Contains(t, got, `rocm_exporter_device_up{gpu="0",pci_bus_id="0000:03:00.0",uuid="692351000123"} 0`)
	end("")
}

func TestPartitionsOfAHungGPUAreDownTogether(t *testing.T) {
	r := hosttest.Host(t, "mi300x-cpx")
	list, err := AMD(r)()
	require.NoError(t, err)
	reached, end := fifo(t, r, list[0].Dir+"/mem_info_vram_used")
	c := newTestCollector(r, AMD(r))
	c.deadline = func(dir string) <-chan time.Time { return map[string]chan time.Time{list[0].Dir: reached}[dir] }
	up := series(scrape(t, c), "rocm_exporter_device_up{")
	require.Len(t, up, 9)
	for _, line := range up[:8] {
		require.Regexp(t, ` 0$`, line)
	}
	require.Regexp(t, `gpu="8".* 1$`, up[8])
	end("1\n")
}

func TestSearchThatHangsOrFailsReportsTheGPUsKnownBefore(t *testing.T) {
	r := put(t, map[string]string{"mem_info_vram_total": "1024\n"})
	answer := one
	c := newTestCollector(r, func() ([]Device, error) { return answer() })
	require.Len(t, series(scrape(t, c), "rocm_memory_total{"), 1)

	answer = func() ([]Device, error) { return nil, unix.EIO }
	got := scrape(t, c)
	require.Len(t, series(got, "rocm_memory_total{"), 1)
	require.Contains(t, got, `rocm_exporter_read_errors_total{errno="EIO",file="search",gpu=""} 1`)

	block := make(chan struct{})
	answer = func() ([]Device, error) { <-block; return nil, errors.New("unused") }
	now := make(chan time.Time)
	close(now)
	c.deadline = func(dir string) <-chan time.Time { return map[string]chan time.Time{"": now}[dir] }
	got = scrape(t, c)
	require.Len(t, series(got, "rocm_memory_total{"), 1)
	require.Contains(t, got, `rocm_exporter_read_errors_total{errno="timeout",file="search",gpu=""} 1`)
	close(block)
}

func TestScrapesAtTheSameTimeShareOneReading(t *testing.T) {
	r := put(t, map[string]string{"mem_info_vram_total": "1024\n"})
	_, end := fifo(t, r, dev+"/gpu_busy_percent")
	c := newTestCollector(r, one)
	joined := make(chan string)
	c.deadline = func(dir string) <-chan time.Time { // asked for once the reading has begun
		if dir == dev {
			joined <- dir
		}
		return nil
	}
	texts := make(chan string, 2)
	for range 2 {
		go func() { texts <- scrape(t, c) }()
	}
	<-joined
	<-joined
	end("7\n") // ends one reader; a second one would never come back
	for range 2 {
		require.Regexp(t, `rocm_gpu_utilization\{[^}]*\} 7\n`, <-texts)
	}
}
