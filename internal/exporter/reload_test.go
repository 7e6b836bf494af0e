package exporter

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// The clock is still here, so nothing but the reload makes it look again.
func TestReloadOpensFilesAgainAndKeepsCounts(t *testing.T) {
	r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n", "ras/umc_err_count": "ue: 2\nce: 0\n"})
	c := newTestCollector(r, one)
	require.NotRegexp(t, `rocm_memory_used\{`, scrape(t, c))

	// In sysfs a directory's time stays the same when its entries change.
	was, err := os.Stat(r.Path(dev))
	require.NoError(t, err)
	hosttest.Put(t, r, dev+"/mem_info_vram_used", "4096\n") // was absent
	require.NoError(t, os.Remove(r.Path(dev+"/gpu_busy_percent")))
	hosttest.Put(t, r, dev+"/gpu_busy_percent", "6\n") // another file of the same name
	require.NoError(t, os.Chtimes(r.Path(dev), was.ModTime(), was.ModTime()))
	hosttest.Put(t, r, dev+"/ras/umc_err_count", "Query currently inaccessible\n")
	text := scrape(t, c)
	require.NotRegexp(t, `rocm_memory_used\{`, text, "it is not looked for at each scrape")
	require.Regexp(t, `rocm_gpu_utilization\{[^}]*\} 5\n`, text, "the descriptor is kept")

	c.Monitor.Reload()
	c.Monitor.Poll()
	text = scrape(t, c)
	require.Regexp(t, `rocm_gpu_utilization\{[^}]*\} 6\n`, text)
	require.Regexp(t, `rocm_memory_used\{[^}]*\} 4096\n`, text)
	require.Regexp(t, `rocm_gpu_healthy\{[^}]*\} 0\n`, text, "what was counted is not forgotten")
}

func TestReloadFindsUnlistedGPUs(t *testing.T) {
	r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n"})
	hosttest.Put(t, r, "/sys/class/drm/version", "drm\n")
	var list []gpu.Slot
	c := newTestCollector(r, func() ([]gpu.Slot, []reading.Compute, error) { return list, nil, nil })
	scrape(t, c)
	scrape(t, c) // it knows the lists now
	list, _, _ = one()
	require.Contains(t, scrape(t, c), "\nrocm_exporter_gpus 0\n")
	c.Monitor.Reload()
	require.Contains(t, scrape(t, c), "\nrocm_exporter_gpus 1\n")
}
