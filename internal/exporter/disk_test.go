package exporter

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestDiskOfTheWorkerIsShownIfItExists(t *testing.T) {
	for folder, series := range map[string]int{"/sys": 1, "/gone": 0, "": 0} {
		r := hosttest.Host(t, "amd")
		text := scrape(t, newCollector(r, monitor.All(r), monitor.Options{Disk: folder}))
		for _, name := range []string{"concourse_worker_disk_bytes ", "concourse_worker_disk_free_bytes "} {
			require.Len(t, lines(text, name), series, folder)
		}
	}
}
