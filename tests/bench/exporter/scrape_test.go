package main

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/exporter"
	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/host"
)

func machine(t testing.TB, n int) (string, *exporter.Collector) {
	root := t.TempDir()
	require.NoError(t, synthesize(root, n))
	return root, exporter.NewCollector(host.Root(root), exporter.AMD(host.Root(root)), "bench", exporter.Options{RASInterval: time.Minute})
}

// The floor must have a source for every series that a scrape reads anew.
func TestFloorHasASourceForEverySeries(t *testing.T) {
	root, c := machine(t, 2)
	body := string(c.Write(nil, expo.Text))
	require.Contains(t, body, "rocm_xgmi_bytes_total{")
	require.NoError(t, writePlan(filepath.Join(t.TempDir(), "plan"), root, body))
}

func BenchmarkScrape(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, c := machine(b, n)
			out := c.Write(nil, expo.Text)
			b.ReportAllocs()
			for b.Loop() {
				out = c.Write(out[:0], expo.Text)
			}
		})
	}
}
