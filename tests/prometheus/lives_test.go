//go:build e2e

package prometheus

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// life is a fault as series have it, a minute apart: an hour before it, two hours of it and
// what is there afterwards. An alert fires soon after the hour, is at the end of the two,
// and is gone in the end.
type life struct {
	series map[string]string
	stands string // when the alert must be there still; "" for the end of the fault
	clears string // when it must have cleared; "" for twenty minutes after the fault
	last   string // and still is; "" for 6h
	late   string // when it must be there first; "" for 25 minutes after the fault began
}

// sick is a value in each of the three parts.
func sick(before, during, after string) string {
	return before + "x59 " + during + "x119 " + after + "x239"
}

// gpuLabels are what series of a GPU have on Prometheus.
const gpuLabels = `juju_unit="w/0",gpu="1",uuid="u",pci_bus_id="0000:04:00.0"`

func of(name, more string) string { return name + "{" + gpuLabels + more + "}" }

var lives = map[string]life{
	"AMDGPUMemoryError":   {series: map[string]string{of("rocm_gpu_ecc_errors_uncorrectable", ""): sick("0", "2", "0")}},
	"AMDGPUHang":          {series: map[string]string{of("rocm_gpu_hang", ""): sick("0", "1", "0"), of("rocm_gpu_hang_events_total", ""): sick("0", "1", "1")}},
	"AMDGPUCannotCompute": {series: map[string]string{of("rocm_gpu_can_compute", ""): sick("1", "0", "1")}},
	"AMDGPULinkDown": {series: map[string]string{of("rocm_xgmi_link_up", `,link="3"`): sick("1", "0", "1"),
		of("rocm_xgmi_link_up", `,link="7"`): "0x400"}},
	"AMDGPUUnhealthy":         {series: map[string]string{of("rocm_gpu_healthy", ""): sick("1", "0", "1")}},
	"AMDGPUHighTemperature":   {series: map[string]string{of("rocm_gpu_temperature_celsius", `,sensor="edge"`): sick("60", "90", "60")}},
	"AMDGPUThermalThrottling": {series: map[string]string{of("rocm_gpu_throttle_status", ""): sick("0", "1", "0")}},
	"AMDGPUMemoryUsageHigh":   {series: map[string]string{of("rocm_memory_used", ""): sick("1", "99", "1"), of("rocm_memory_total", ""): "100x400"}},
	"AMDGPUCorrectableErrors": {series: map[string]string{of("rocm_gpu_ras_errors_total", `,severity="ce",block="umc"`): "0x59 0+5x119 600x239"}, clears: "4h30m"},
	"AMDGPUBadPagesPending":   {series: map[string]string{of("rocm_gpu_bad_pages", `,state="pending"`): sick("0", "3", "0")}},
	"AMDGPUPCIeErrors":        {series: map[string]string{of("rocm_pcie_replays_total", ""): "0x59 0+20x119 2400x239"}},
	"AMDGPUNotAnswering":      {series: map[string]string{of("rocm_exporter_device_up", ""): sick("1", "0", "1")}},
	"AMDGPUMissing":           {series: map[string]string{`rocm_exporter_gpus{juju_unit="w/0"}`: sick("4", "3", "4")}},
	"AMDGPUFirmwareDiffers": {series: map[string]string{
		of("rocm_gpu_firmware_info", `,model="MI210",component="smc",version="0x1"`):                                          "1x400",
		`rocm_gpu_firmware_info{juju_unit="w/0",gpu="2",uuid="v",pci_bus_id="5",model="MI210",component="smc",version="0x1"}`: sick("1", "_", "1"),
		`rocm_gpu_firmware_info{juju_unit="w/0",gpu="2",uuid="v",pci_bus_id="5",model="MI210",component="smc",version="0x2"}`: sick("_", "1", "_")}},
	"AMDGPUDriverMismatch": {series: map[string]string{`concourse_gpu_driver_match{juju_unit="w/0",running="dkms",selected="kernel"}`: sick("1", "0", "1")}},
	"AMDGPUExporterDown":   {series: map[string]string{`up{juju_unit="w/0",job="w_rocm-exporter-1"}`: sick("1", "0", "1")}},
	"AMDGPUMetricsMissing": {series: map[string]string{`rocm_exporter_gpus{juju_unit="w/0"}`: sick("4", "_", "4")}, stands: "1h55m"},
	"AMDGPUQuarantined": {series: map[string]string{of("rocm_gpu_service_state", `,state="in_service"`): sick("1", "_", "1"),
		of("rocm_gpu_service_state", `,state="quarantined"`):  "_x59 1x89 _x29 _x239",
		of("rocm_gpu_service_state", `,state="on_probation"`): "_x59 _x89 1x29 _x239"}},
	"AMDGPUFlapping": {series: map[string]string{of("rocm_gpu_quarantines_total", ""): "0x59 1x9 2x9 3x1500",
		`rocm_gpu_quarantines_total{juju_unit="w/0",gpu="2",uuid="v",pci_bus_id="5"}`: "7x59 8x9 9x1500"}, clears: "25h10m", last: "26h"}, // twice is not enough
	"AMDGPUTaskMakesSick": {series: map[string]string{of("rocm_gpu_container_faults", `,container="c1",verdict="task"`): sick("_", "1", "_"),
		of("rocm_gpu_container_faults", `,container="c2",verdict="infrastructure"`): sick("_", "1", "_")}},
	"AMDGPUServiceUnknown": {series: map[string]string{`rocm_exporter_service_report_age_seconds{juju_unit="w/0"}`: sick("9", "500", "9")}},
	"AMDGPULeaseInDoubt":   {series: map[string]string{of("rocm_gpu_lease_doubtful", ""): sick("0", "1", "0")}},
	"AMDGPULeasesUnknown":  {series: map[string]string{`rocm_exporter_lease_report_age_seconds{juju_unit="w/0"}`: sick("9", "500", "9")}},
	"AMDGPULeasedIdle": {series: map[string]string{of("rocm_gpu_lease_age_seconds", `,container="c1",kind="task"`): "0x59 0+60x80 4860+60x39 stale",
		of("rocm_gpu_utilization", ""): sick("90", "1", "0")}, stands: "2h", clears: "3h5m", late: "1h45m"},
	"ConcourseWorkerDiskFull": {series: map[string]string{`concourse_worker_disk_bytes{juju_unit="w/0"}`: "100x420", `concourse_worker_disk_free_bytes{juju_unit="w/0"}`: sick("20", "9", "20")}},

	// A failing test of the same rate is none of infrastructure's.
	"ConcourseInfrastructureFailsBuilds": {series: map[string]string{`concourse_worker_tasks_total{juju_unit="w/0",verdict="machine"}`: "0x59 1+1x119 120x480",
		`concourse_worker_tasks_total{juju_unit="w/0",verdict="succeeded"}`: "0+4x660", `concourse_worker_tasks_total{juju_unit="w/1",verdict="task"}`: "0x59 1+1x119 120x480"},
		clears: "8h", last: "10h", late: "1h45m"},
	"ConcourseNotAnswering": {series: map[string]string{`concourse_exporter_up{juju_unit="ci/0"}`: sick("1", "0", "1")}},
	"ConcourseDatabaseUnreachable": {series: map[string]string{`concourse_exporter_up{juju_unit="ci/0"}`: sick("1", "0", "1"),
		`concourse_exporter_polls_total{juju_unit="ci/0",result="failing"}`: "0x59 2+2x119 240x239",
		// A wrong password is not a lost database.
		`concourse_exporter_up{juju_unit="ci/1"}`: "0x400", `concourse_exporter_polls_total{juju_unit="ci/1",result="login"}`: "0+2x400"}},
	"ConcourseExporterDown": {series: map[string]string{`up{juju_unit="ci/0",job="juju_ci_prometheus_scrape_concourse-exporter-1"}`: sick("1", "0", "1"),
		`up{juju_unit="ci/0",job="juju_ci_prometheus_scrape_concourse-0"}`: "0x400"}},
	"ConcourseWorkerStalled": {series: map[string]string{`concourse_workers_registered{juju_unit="ci/0",state="stalled"}`: sick("0", "1", "0"),
		`concourse_workers_registered{juju_unit="ci/1",state="stalled"}`: sick("0", "1", "0"), `concourse_workers_registered{juju_unit="ci/0",state="running"}`: "4x400"}},
	"ConcourseWorkerLanding": {series: map[string]string{`concourse_workers_registered{juju_unit="ci/0",state="landing"}`: sick("0", "1", "0"),
		`concourse_workers_registered{juju_unit="ci/0",state="landed"}`: "1x400"}, late: "2h10m"},
	"ConcourseJobFailing": {series: map[string]string{`concourse_job_consecutive_failures{juju_unit="ci/0",exported_job="j",pipeline="p",team="t"}`: "0x19 1x19 2x19 3x59 4x59 0x239",
		`concourse_job_consecutive_failures{juju_unit="ci/1",exported_job="j",pipeline="p",team="t"}`: "0x19 1x19 2x19 3x59 4x59 0x239"}},
	"ConcourseGPUWait": {series: map[string]string{`concourse_steps_waiting{juju_unit="ci/0",type="task",platform="linux",teamId="1",teamName="t",workerTags="gpu_compute-runtime=rocm"}`: sick("0", "2", "0"),
		`concourse_steps_waiting{juju_unit="ci/0",type="task",platform="linux",teamId="1",teamName="t",workerTags="arm64"}`: "3x400"}, late: "1h45m"},
	"ConcourseRequiredArchMissing": {series: map[string]string{`concourse_required_arch_workers{juju_application="ci",juju_unit="ci/0",arch="gfx942"}`: sick("2", "0", "1")}},
}

// An alert that does not stand while the fault does, or that nothing ends, is worse than
// none: people learn to look away.
func TestEveryAlertFiresStaysAndClears(t *testing.T) {
	type group struct {
		Name, Interval string
		Rules          []yaml.Node
	}
	var rules struct{ Groups []group }
	for _, file := range []string{rulesFile, webRules} {
		require.NoError(t, yaml.Unmarshal([]byte(readFile(t, file)), &rules))
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				var rule struct{ Alert string }
				require.NoError(t, r.Decode(&rule))
				require.Contains(t, lives, rule.Alert)
				t.Run(rule.Alert, func(t *testing.T) {
					// Alone: promtool evaluates all rules, and no alert is of another's result.
					alone, err := yaml.Marshal(map[string]any{"groups": []group{{g.Name, g.Interval, []yaml.Node{r}}}})
					require.NoError(t, err)
					out, err := runTests(t, rule.Alert, string(alone), lives[rule.Alert].test(rule.Alert))
					require.NoError(t, err, out)
				})
			}
		}
	}
}

// test returns the life as promtool tests it.
func (l life) test(alert string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%s.yaml]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n", alert)
	for series, values := range l.series {
		fmt.Fprintf(&b, "      - {series: %q, values: %q}\n", series, values)
	}
	b.WriteString("    promql_expr_test:\n")
	stands, clears, last, late := "2h58m", "3h20m", "6h", "1h25m"
	if l.late != "" {
		late = l.late
	}
	if l.stands != "" {
		stands = l.stands
	}
	if l.clears != "" {
		clears = l.clears
	}
	if l.last != "" {
		last = l.last
	}
	for at, firing := range map[string]int{"58m": 0, late: 1, stands: 1, clears: 0, last: 0} {
		fmt.Fprintf(&b, "      - {eval_time: %s, expr: 'count(ALERTS{alertname=%q,alertstate=\"firing\"}) or vector(0)', exp_samples: [{labels: '{}', value: %d}]}\n", at, alert, firing)
	}
	return b.String()
}
