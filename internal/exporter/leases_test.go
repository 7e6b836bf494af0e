package exporter

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const reportFile = "/run/leases.json"

// leasing is host mi210x4 with a report of its leases.
func leasing(t *testing.T, r pool.Report) (host.Root, *collector) {
	t.Helper()
	root := hosttest.Host(t, "mi210x4")
	data, err := json.Marshal(r)
	require.NoError(t, err)
	hosttest.Put(t, root, reportFile, string(data))
	return root, newCollector(root, monitor.All(root), monitor.Options{Leases: reportFile})
}

// reported is a report of two held GPUs, one of them in doubt.
func reported(t *testing.T) pool.Report {
	t.Helper()
	devices, _, err := monitor.All(hosttest.Host(t, "mi210x4"))()
	require.NoError(t, err)
	require.Len(t, devices, 4)
	since, r := hosttest.Now.Add(-10*time.Minute), pool.Report{At: hosttest.Now.Add(-5 * time.Second)}
	for _, d := range devices {
		r.GPUs = append(r.GPUs, pool.ReportedLease{Name: d.Address(), PCI: d.PCI})
	}
	r.GPUs[1].Held, r.GPUs[1].Container, r.GPUs[1].Since = true, "4f1c", &since
	pod := &r.GPUs[3]
	pod.Held, pod.Kind, pod.Container, pod.Namespace, pod.Pod, pod.Since = true, lease.Pod, "main", "team-a", "train-0", &since
	r.GPUs[2].Held, r.GPUs[2].Doubt = true, "the record is damaged"
	r.GPUs = append(r.GPUs, pool.ReportedLease{Name: "GPU-gone", Lease: pool.Lease{Held: true, Holder: pool.Holder{Container: "gone", Since: &since}}})
	r.Counters = pool.LeaseCounters{Granted: 41, Busy: 3, Impossible: 1, HeldSeconds: 86400.25}
	return r
}

// leaseLines are the series of leases in a scrape.
func leaseLines(t *testing.T, c *collector) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(scrape(t, c)) {
		if strings.Contains(line, "_lease") && line[0] != '#' || strings.Contains(line, `file="leases"`) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestLeasesAreSeries(t *testing.T) {
	_, c := leasing(t, reported(t))
	hosttest.Golden(t, "testdata/leases.golden", leaseLines(t, c))
	require.Contains(t, c.get(t, "/").Body.String(), "pod team-a/train-0, container main")
	problems, err := promlint.New(strings.NewReader(scrape(t, c))).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		require.NotContains(t, p.Metric, "_lease", p.Text)
	}
}

func TestUnitsThatShareTheirGPUsHaveNoSeriesOfLeases(t *testing.T) {
	root, _ := leasing(t, reported(t))
	require.Empty(t, leaseLines(t, newTestCollector(root, monitor.All(root))))
}

// A report that no one writes any more must not look like GPUs that are free or held now;
// counters go on, and its age reports what is wrong.
func TestOldReportIsNotShown(t *testing.T) {
	for _, age := range []time.Duration{2 * time.Minute, time.Hour, -time.Hour} {
		r := reported(t)
		r.At = hosttest.Now.Add(-age)
		_, c := leasing(t, r)
		got := leaseLines(t, c)
		for _, name := range []string{"lease_held{", "lease_age", "doubtful"} {
			require.NotContains(t, got, name, age)
		}
		require.Contains(t, got, "rocm_gpu_leases_granted_total 41\n")
		require.Contains(t, got, "rocm_exporter_lease_report_age_seconds ")
	}
}

func TestDifferentClocksGiveNoNegativeAges(t *testing.T) {
	r := reported(t)
	ahead := hosttest.Now.Add(time.Minute)
	r.At, r.GPUs[1].Since = ahead, &ahead
	_, c := leasing(t, r)
	require.NotContains(t, leaseLines(t, c), " -")
}

// Whatever a report has, the scrape goes on, and Prometheus can read it.
func FuzzLeaseReport(f *testing.F) {
	f.Add(`{"at":"2026-01-02T03:04:05Z","gpus":[{"name":"` + exportertest.PCI + `","held":true,"since":"2026-01-02T03:04:05Z","container":"` +
		strings.Repeat("\u20ac", 40) + `"}],"waiting":[{}],"since_boot":{}}`) // 64 bytes end within a letter
	f.Add(`{"gpus":null}`)
	root := exportertest.Put(f, map[string]string{"gpu_busy_percent": "5\n"})
	c := newCollector(root, one, monitor.Options{Leases: reportFile})
	f.Fuzz(func(t *testing.T, text string) {
		hosttest.Put(t, root, reportFile, text)
		requireSound(t, scrape(t, c))
	})
}
