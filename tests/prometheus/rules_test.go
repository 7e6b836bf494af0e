//go:build e2e

package prometheus

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
)

const (
	rulesDir  = "../../src/prometheus_alert_rules/"
	rulesFile = rulesDir + "amd-alerts.yaml"
	webRules  = rulesDir + "concourse-alerts.yaml"
	useRules  = rulesDir + "concourse-usage.yaml"
)

// need skips if a program is missing, but not under `make e2e`.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("E2E") == "1" && !strings.Contains(","+os.Getenv("E2E_WITHOUT")+",", ",prometheus,") {
			require.NoError(t, err)
		}
		t.Skip(program + " is not installed (Debian: prometheus)")
	}
}

func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	need(t, "promtool")
	out, err := exec.Command("promtool", args...).CombinedOutput()
	return string(out), err
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestRulesPassPromtool(t *testing.T) {
	out, err := promtool(t, "check", "rules", "--lint-fatal", rulesFile, webRules, useRules)
	require.NoError(t, err, out)
}

// What goes over a relation is written to a file by the other side, as YAML.
func TestPublishedRulesPassPromtool(t *testing.T) {
	bag, err := relation.ScrapeApp(relation.Topology{Model: "ci", ModelUUID: "f47ac10b-58cc-4372-a567-0e02b2c3d479",
		App: "gpu-worker", Unit: "gpu-worker/0", Charm: "concourse-ci-machine"}, []byte(readFile(t, rulesFile)+"---\n"+readFile(t, webRules)+"---\n"+readFile(t, useRules)), []relation.Job{relation.ExporterJob()})
	require.NoError(t, err)
	require.Contains(t, bag["alert_rules"], "AMDGPUMemoryError")
	require.Contains(t, bag["alert_rules"], "ConcourseRequiredArchMissing")
	require.Contains(t, bag["alert_rules"], `"record":"concourse:container_gpu_held_seconds"`)
	var groups any
	require.NoError(t, json.Unmarshal([]byte(bag["alert_rules"]), &groups))
	data, err := yaml.Marshal(groups)
	require.NoError(t, err)
	out, err := promtool(t, "check", "rules", "--lint-fatal", writeFile(t, filepath.Join(t.TempDir(), "published.yaml"), string(data)))
	require.NoError(t, err, out)
}

// testRules runs the own tests of a file of rules.
func testRules(t *testing.T, name, rules string) (string, error) {
	t.Helper()
	return runTests(t, name, rules, readFile(t, "testdata/"+name+".test.yaml"))
}

func runTests(t *testing.T, name, rules, tests string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, name+".yaml"), rules)
	return promtool(t, "test", "rules", writeFile(t, filepath.Join(dir, "test.yaml"), tests))
}

// testsOf returns the tests of amd-alerts that name an alert. promtool needs a quarter of a
// minute for all tests.
func testsOf(t *testing.T, alert string) string {
	t.Helper()
	var file struct {
		RuleFiles          []string    `yaml:"rule_files"`
		EvaluationInterval string      `yaml:"evaluation_interval"`
		Tests              []yaml.Node // decoded, values of 0x30 would be a number
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "testdata/amd-alerts.test.yaml")), &file))
	file.Tests = slices.DeleteFunc(file.Tests, func(test yaml.Node) bool {
		text, err := yaml.Marshal(&test)
		require.NoError(t, err)
		return !strings.Contains(string(text), alert)
	})
	text, err := yaml.Marshal(file)
	require.NoError(t, err)
	return string(text)
}

func TestAlertsFireAndClear(t *testing.T) {
	out, err := testRules(t, "amd-alerts", readFile(t, rulesFile))
	require.NoError(t, err, out)
	out, err = testRules(t, "concourse-alerts", readFile(t, webRules))
	require.NoError(t, err, out)
}

func TestWhatBuildsHadOfGPUsIsRecorded(t *testing.T) {
	rules := readFile(t, useRules)
	out, err := testRules(t, "concourse-usage", rules)
	require.NoError(t, err, out)
	for _, fault := range [][2]string{
		{"max_over_time(rocm_gpu_lease_age_seconds[5m])", "rocm_gpu_lease_age_seconds"},               // the end of a build is lost
		{"max without (kind, namespace, pod, title) (max_over_time", "max without () (max_over_time"}, // what is leased and open counts twice
		{"max without (kind, namespace, pod, title) (rocm", "max without () (rocm"},
		{" or rocm_gpu_container_open_seconds_total{container!=\"\"})", ")"},
		{"processes{container!=\"\"} > 0)", "processes{container!=\"\"})"},
		{`container!="",kind="vram"`, `container!=""`},
		{`rocm_gpu_container_memory_peak_bytes{kind="vram"} or `, ""}, // what a look at processes misses
	} {
		require.Equal(t, 1, strings.Count(rules, fault[0]), fault[0])
		_, err := testRules(t, "concourse-usage", strings.Replace(rules, fault[0], fault[1], 1))
		require.Error(t, err, fault[1])
	}
}

func TestFaultsInTheWebsRulesAreNoticed(t *testing.T) {
	rules := readFile(t, webRules)
	for _, fault := range [][2]string{
		{"max without (juju_unit, instance) (concourse_required_arch_workers) == 0", "concourse_required_arch_workers == 0"},
		{"(concourse_required_arch_workers) == 0\n        for: 10m", "(concourse_required_arch_workers) <= 1\n        for: 10m"},
		{"(concourse_required_arch_workers) == 0\n        for: 10m", "(concourse_required_arch_workers) == 0\n        for: 5m"},
		{"(concourse_required_arch_workers) == 0\n        for: 10m", "(concourse_required_arch_workers) == 0\n        for: 30m"},
	} {
		require.Equal(t, 1, strings.Count(rules, fault[0]), fault[0])
		_, err := testRules(t, "concourse-alerts", strings.Replace(rules, fault[0], fault[1], 1))
		require.Error(t, err, fault[1])
	}
}

// Each line is a fault that rules of this kind had or could have; the tests of the rules
// must see it.
func TestFaultsInTheRulesAreNoticed(t *testing.T) {
	rules := readFile(t, rulesFile)
	for alert, fault := range map[string][2]string{
		"AMDGPUMemoryError":       {"rocm_gpu_ecc_errors_uncorrectable > 0", "increase(rocm_gpu_ecc_errors_uncorrectable[15m]) > 0"},
		"AMDGPUHang":              {" or increase(rocm_gpu_hang_events_total[5m]) > 0", ""},
		"AMDGPULinkDown":          {" and max_over_time(rocm_xgmi_link_up[1d]) == 1", ""},
		"AMDGPUHighTemperature":   {`sensor!="edge"} > 0.95 * rocm_gpu_temperature_crit_celsius`, `sensor!="edge"} > 85`},
		"AMDGPUThermalThrottling": {"rocm_gpu_throttle_status > 0", "rocm_gpu_throttle_status > 2"},
		"AMDGPUMemoryUsageHigh":   {"rocm_memory_used / rocm_memory_total > 0.95", "rocm_memory_used / rocm_memory_total > 0.94"},
		"AMDGPUMissing":           {"max_over_time(rocm_exporter_gpus[1d])", "max_over_time(rocm_exporter_gpus[1h])"},
		"AMDGPUCorrectableErrors": {`sum without (block) (increase(rocm_gpu_ras_errors_total{severity="ce"}[1h])) > 100`, `rocm_gpu_ras_errors_total{severity="ce"} > 100`},
		"AMDGPUBadPagesPending":   {`rocm_gpu_bad_pages{state="pending"}`, "rocm_gpu_bad_pages"},
		"AMDGPUPCIeErrors":        {"increase(rocm_pcie_replays_total[15m]) > 100", "rocm_pcie_replays_total > 100"},
		"AMDGPULeaseInDoubt":      {"rocm_gpu_lease_doubtful == 1", "rocm_gpu_lease_held == 1"},
		"AMDGPULeasesUnknown":     {"rocm_exporter_lease_report_age_seconds > 120", "rocm_exporter_lease_report_age_seconds > 10"},
		"AMDGPUExporterDown":      {`up{job=~".*rocm-(gpu-)?exporter.*"}`, "up"},
		"AMDGPUMetricsMissing":    {"present_over_time(rocm_exporter_gpus[1h]) unless", "present_over_time(rocm_exporter_gpus[1d]) unless"},
	} {
		t.Run(alert, func(t *testing.T) {
			require.Equal(t, 1, strings.Count(rules, fault[0]), fault[0])
			tests := testsOf(t, alert)
			out, err := runTests(t, "amd-alerts", rules, tests)
			require.NoError(t, err, out)
			out, err = runTests(t, "amd-alerts", strings.Replace(rules, fault[0], fault[1], 1), tests)
			require.Error(t, err)
			require.Contains(t, out, alert)
		})
	}
}
