//go:build e2e

// Package exporter holds rocm-exporter's output against Prometheus' own tools.
package exporter

import (
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// accepted is what promtool may report: the contract's own name, which is a gauge, and
// NVIDIA's names.
var accepted = []string{"rocm_memory_total non-counter metrics should not have", "DCGM_FI_DEV_"}

func TestPromtoolAcceptsTheMetricsOfEveryFixtureHost(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: prometheus)")
	}
	for _, name := range hosttest.HostNames() {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, name)
			source := &exporter.Source{Root: r, Version: "e2e", Monitor: monitor.New(r, monitor.All(r), monitor.Options{})}
			w := httptest.NewRecorder()
			exporter.Handler(source, exporter.MetricOptions{DCGM: true}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			require.Equal(t, 200, w.Code)
			check := exec.Command(promtool, "check", "metrics")
			check.Stdin = w.Body
			out, err := check.CombinedOutput() // 3 if it has remarks
			if check.ProcessState.ExitCode() != 3 {
				require.NoError(t, err, string(out))
			}
		lines:
			for line := range strings.Lines(string(out)) {
				for _, a := range accepted {
					if strings.HasPrefix(line, a) {
						continue lines
					}
				}
				require.Empty(t, strings.TrimSpace(line))
			}
		})
	}
}
