//go:build e2e

package prometheus

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// packaged returns the folder with the alerts and the dashboard of rocm-gpu-exporter.
func packaged(t *testing.T) string {
	t.Helper()
	bin, dir := t.TempDir(), t.TempDir()
	require.NoError(t, suite.Build(bin, "./tools/monitoring"))
	out, err := exec.Command(filepath.Join(bin, "monitoring"), "../../src", dir).CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

func TestRulesOfThePackagePassPromtool(t *testing.T) {
	out, err := promtool(t, "check", "rules", "--lint-fatal", filepath.Join(packaged(t), "prometheus-alerts.yaml"))
	require.NoError(t, err, out)
}

// Two machines with GPUs of the same addresses are distinguished by their host alone, in a
// job that is named as the package.
func TestPackageSeparatesHostsWithEqualGPUs(t *testing.T) {
	need(t, "prometheus")
	dir, bin := packaged(t), buildExporter(t)
	roots := []string{string(hosttest.Host(t, "mi210x4")), string(hosttest.Host(t, "mi210x4"))}
	require.NoError(t, os.Remove(roots[1]+"/dev/kfd"))
	hosts := []string{exporter(t, bin, roots[0], "--web.external-url=http://one/"), exporter(t, bin, roots[1], "--web.external-url=http://two/")}
	const gone = "127.0.0.1:1"
	s := launch(t, []string{filepath.Join(dir, "prometheus-alerts.yaml")},
		fmt.Sprintf("- job_name: rocm-gpu-exporter\n  static_configs: [{targets: [%q, %q, %q]}]\n", hosts[0], hosts[1], gone))
	s.until(func() bool { return len(s.query("up == 1")) == 2 }, "not all are scraped: %v", s.query("up"))

	panels, variables := queries(t, filepath.Join(dir, "grafana-dashboard.json"))
	t.Run("every variable has values to choose from", func(t *testing.T) {
		s.offers(variables)
		require.Contains(t, variables, "instance")
	})
	t.Run("the table has a line for each GPU of each host", func(t *testing.T) {
		table := tableOf(panels)
		require.NotEmpty(t, table)
		for _, q := range table {
			lines := map[string]bool{}
			for _, r := range s.query(q.expr) {
				lines[r.Metric["instance"]+r.Metric["pci_bus_id"]] = true
			}
			require.Len(t, lines, 8, q.expr)
		}
	})
	t.Run("every query is valid and has the labels of its legend", func(t *testing.T) {
		checked := 0
		for _, q := range panels {
			for _, r := range s.query(q.expr) {
				if strings.Contains(q.legend, "{{instance}}") {
					checked++
					require.Contains(t, hosts, r.Metric["instance"], q.expr)
				}
			}
		}
		require.NotZero(t, checked)
	})
	alerts := func(name string) (found []map[string]string) {
		var data struct {
			Alerts []struct{ Labels, Annotations map[string]string }
		}
		s.get("/api/v1/alerts", url.Values{}, &data)
		for _, a := range data.Alerts {
			if a.Labels["alertname"] == name {
				a.Annotations["instance"] = a.Labels["instance"]
				found = append(found, a.Annotations)
			}
		}
		return found
	}
	t.Run("alerts name the host and commands of gpukit", func(t *testing.T) {
		s.until(func() bool { return len(alerts("AMDGPUMemoryError")) == 2 }, "a GPU of each host has an error")
		for _, a := range alerts("AMDGPUMemoryError") {
			require.Equal(t, "Uncorrectable memory error on GPU 3 of "+a["instance"], a["summary"])
			require.Equal(t, "gpukit explain 7", a["action"])
		}
		s.until(func() bool { return len(alerts("AMDGPUCannotCompute")) == 4 }, "the second host has no /dev/kfd")
		for _, a := range alerts("AMDGPUCannotCompute") {
			require.Equal(t, hosts[1], a["instance"])
		}
		s.until(func() bool { return len(alerts("AMDGPUExporterDown")) == 1 }, "the third host does not answer")
		require.Equal(t, "No GPU metrics from "+gone, alerts("AMDGPUExporterDown")[0]["summary"])
	})
	text, err := json.Marshal(append(alerts("AMDGPUMemoryError"), alerts("AMDGPUExporterDown")...))
	require.NoError(t, err)
	require.NotContains(t, string(text), "juju")
}
