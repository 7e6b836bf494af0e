package exporter

import (
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const handle = "eb2a4fe8-e932-49c4-b519-4f1da1901416"

// newWatching is a collector that looks at processes, with a task that uses a GPU.
func newWatching(t *testing.T, r host.Root, node, fdinfo string) *collector {
	t.Helper()
	hosttest.Put(t, r, "/proc/100/cgroup", "0::/garden/"+handle+"\n")
	hosttest.Link(t, r, "/proc/100/fd/7", "/dev/dri/"+node)
	hosttest.Put(t, r, "/proc/100/fdinfo/7", fdinfo)
	return newCollector(r, monitor.All(r), monitor.Options{Usage: true, UsageInterval: defaultUsage, UsageContainers: 4})
}

func fdinfoOf(pci string) string {
	return fmt.Sprintf("drm-driver:\tamdgpu\ndrm-pdev:\t%s\ndrm-client-id:\t7\npasid:\t32771\ndrm-memory-vram:\t1024 KiB\n"+
		"drm-memory-gtt: \t2048 KiB\ndrm-engine-gfx:\t2500000000 ns\n", pci)
}

func TestContainersOfEachGPUAreInAScrape(t *testing.T) {
	r := hosttest.Host(t, "amd")
	c := newWatching(t, r, "renderD128", fdinfoOf("0000:03:00.0"))
	require.Empty(t, lines(scrape(t, c), "rocm_gpu_container"), "nothing is read in a scrape")
	inBackground(t, c.Monitor.Watch)
	text := scrape(t, c)
	const of = `{container="` + handle + `",`
	gpu := `gpu="0",%spci_bus_id="0000:03:00.0",uuid="GPU-`
	for _, want := range []string{
		"rocm_gpu_container_processes" + of + fmt.Sprintf(gpu, ""),
		"rocm_gpu_container_memory_bytes" + of + fmt.Sprintf(gpu, `kind="vram",`),
		"rocm_gpu_container_memory_bytes" + of + fmt.Sprintf(gpu, `kind="gtt",`),
		"rocm_gpu_container_engine_seconds_total" + of + `engine="gfx",` + fmt.Sprintf(gpu, ""),
	} {
		require.Contains(t, text, want)
	}
	require.True(t, strings.HasSuffix(lines(text, "rocm_gpu_container_engine")[0], "} 2.5"), text)
	require.Equal(t, []string{`rocm_exporter_usage_left_out{reason="limit"} 0`, `rocm_exporter_usage_left_out{reason="namespace"} 0`,
		`rocm_exporter_usage_left_out{reason="unreadable"} 0`}, lines(text, "rocm_exporter_usage_left_out{"))
	require.Len(t, lines(text, "rocm_exporter_usage_scan_seconds "), 1)
	require.Equal(t, lines(text, "rocm_gpu_container"), lines(scrape(t, c), "rocm_gpu_container"), "until the next look")

	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		require.Contains(t, acceptedLint, p.Metric)
	}

	c.now = func() time.Time { return hosttest.Now.Add(5 * defaultUsage) }
	require.Empty(t, lines(scrape(t, c), "rocm_gpu_container"), "what is too old says nothing")
}

func TestContainersOfAnAPUAreInAScrape(t *testing.T) {
	r := hosttest.Host(t, "apu-gfx1103")
	c := newWatching(t, r, "renderD128", fdinfoOf("0000:c4:00.0"))
	scrape(t, c)
	inBackground(t, c.Monitor.Watch)
	text := scrape(t, c)
	require.Len(t, lines(text, `rocm_gpu_container_memory_bytes{container="`+handle+`",gpu="0",kind="gtt",pci_bus_id="0000:c4:00.0"`), 1)
	require.Len(t, lines(text, `rocm_gpu_container_engine_seconds_total{container="`+handle+`",engine="gfx",gpu="0",pci_bus_id="0000:c4:00.0"`), 1)
}

// Two processes: one that looks and writes, one that reads and serves.
func TestReportIsShownLikeAnOwnScan(t *testing.T) {
	const file = "/run/usage.json"
	r := hosttest.Host(t, "amd")
	looks := newWatching(t, r, "renderD128", fdinfoOf("0000:03:00.0"))
	look := func() {
		t.Helper()
		require.NoError(t, looks.Monitor.ReportUsers(t.Context(), file))
	}
	serves := newCollector(r, monitor.All(r), monitor.Options{Usage: true, UsageInterval: defaultUsage, UsageReport: file})
	now := hosttest.Now
	serves.now = func() time.Time { return now }
	inBackground(t, serves.Monitor.Watch)
	require.Empty(t, lines(scrape(t, serves), "rocm_exporter_usage"), "it does not look itself")

	look()
	st, err := r.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), st.Mode())
	want, got := scrape(t, looks), scrape(t, serves)
	require.Len(t, lines(want, "rocm_gpu_container"), 5)
	for _, prefix := range []string{"rocm_gpu_container", "rocm_exporter_usage"} {
		require.Equal(t, lines(want, prefix), lines(got, prefix))
	}

	t.Run("the next one in its place", func(t *testing.T) {
		hosttest.Put(t, r, "/proc/100/fdinfo/7", strings.Replace(fdinfoOf("0000:03:00.0"), "1024 KiB", "1 KiB", 1))
		look()
		require.Contains(t, lines(scrape(t, serves), "rocm_gpu_container_memory_bytes")[0], "} 1024")
	})
	t.Run("not when it is old, by either clock", func(t *testing.T) {
		for _, off := range []time.Duration{5 * defaultUsage, -5 * defaultUsage} {
			now = hosttest.Now.Add(off)
			require.Empty(t, lines(scrape(t, serves), "rocm_gpu_container"))
		}
		now = hosttest.Now
	})
	t.Run("damage is counted", func(t *testing.T) {
		hosttest.Put(t, r, file, `{"devices": 1}`)
		require.Equal(t, []string{`rocm_exporter_read_errors_total{errno="damaged",file="usage",gpu=""} 1`}, lines(scrape(t, serves), "rocm_exporter_read_errors_total"))
		require.NoError(t, r.Remove(file))
		require.Empty(t, lines(scrape(t, serves), "rocm_gpu_container"), "nothing of one that is gone")
	})
}

// Whatever a report has, the scrape goes on, and Prometheus can read it.
func FuzzUsersReport(f *testing.F) {
	at := hosttest.Now.Format(time.RFC3339)
	f.Add(`{"at":"` + at + `","took_ns":1,"left_out":{},"devices":[{"pci":"` + exportertest.PCI +
		`","partition":0,"rows":[{"container":"a","memory":[{"name":"vram","value":1}]}]}]}`)
	f.Add(`{"devices":null}`)
	root := exportertest.Put(f, map[string]string{"gpu_busy_percent": "5\n"})
	c := newCollector(root, one, monitor.Options{Usage: true, UsageInterval: defaultUsage, UsageReport: "/usage.json"})
	f.Fuzz(func(t *testing.T, text string) {
		hosttest.Put(t, root, "/usage.json", text)
		_, err := promlint.New(strings.NewReader(scrape(t, c))).Lint()
		require.NoError(t, err)
	})
}

// The owner of the GPUs needs no exporter: it writes their state, and then runs a command.
func TestOwnerRunsItsCommandAfterEachReading(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	require.NoError(t, r.MkdirAll("/run", 0o755))
	var out strings.Builder
	then := follower{argv: []string{"/bin/sh", "-c", "echo a; echo b; echo why >&2; exit 3"}, logs: log.New(&out, "", 0)}
	m := monitor.New(r, monitor.All(r), monitor.Options{})
	require.NoError(t, m.WriteReport("/run/gpus.json"))
	report, err := api.File("/run/gpus.json").Read(r)
	require.NoError(t, err)
	require.Len(t, report.GPUs, 4)
	for range 2 {
		then.run(t.Context())
	}
	require.Equal(t, "a\nb\n"+`cannot run "/bin/sh -c echo a; echo b; echo why >&2; exit 3": exit 3: why`+"\na\nb\n", out.String(), "the same failure is logged once")
	then.argv = []string{"/bin/true"}
	then.run(t.Context())
	require.Empty(t, then.failed)
	(&follower{}).run(t.Context())
}
