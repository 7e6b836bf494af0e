package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
)

func machine(t testing.TB, n int) (string, http.Handler) {
	root := host.Root(t.TempDir())
	require.NoError(t, synthesize(string(root), n))
	m := monitor.New(root, monitor.All(root), monitor.Options{RASInterval: time.Minute})
	return string(root), exporter.Handler(&exporter.Source{Root: root, Version: "bench", Monitor: m}, exporter.MetricOptions{})
}

func scrape(h http.Handler) string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// The floor must have a source for every series that a scrape reads again.
func TestFloorHasASourceForEverySeries(t *testing.T) {
	root, h := machine(t, 2)
	body := scrape(h)
	require.Contains(t, body, "rocm_xgmi_bytes_total{")
	require.NoError(t, writePlan(filepath.Join(t.TempDir(), "plan"), root, body))
}

// What the timer of error counters costs apart from what the hardware takes: the exporter
// reads them every monitor.DefaultRAS.
func BenchmarkErrorCounters(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			root := host.Root(b.TempDir())
			require.NoError(b, synthesize(string(root), n))
			m := monitor.New(root, monitor.All(root), monitor.Options{})
			m.Snapshot()
			for b.Loop() {
				m.Poll()
			}
		})
	}
}

func BenchmarkScrape(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, h := machine(b, n)
			b.ReportAllocs()
			for b.Loop() {
				scrape(h)
			}
		})
	}
}
