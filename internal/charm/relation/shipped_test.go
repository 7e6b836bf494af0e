package relation

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/series"
)

const (
	rulesFile     = "../../../src/prometheus_alert_rules/amd-alerts.yaml"
	dashboardFile = "../../../src/grafana_dashboards/amd-gpu.json"
)

func shippedRules(t *testing.T) ruleGroups {
	t.Helper()
	data, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	groups, err := alertRules(Topology{}, data)
	require.NoError(t, err)
	return groups
}

// dashboardQueries returns the queries by panel, and the queries of variables by name.
func dashboardQueries(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	type panel struct {
		Title   string
		Targets []struct{ Expr string }
	}
	var d struct {
		Panels []struct {
			panel
			Panels []panel // of a folded row
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	require.NoError(t, json.Unmarshal(data, &d))
	out := map[string][]string{}
	for _, p := range d.Panels {
		for _, p := range append(p.Panels, p.panel) {
			for _, target := range p.Targets {
				out[p.Title] = append(out[p.Title], target.Expr)
			}
		}
	}
	for _, v := range d.Templating.List {
		if v.Definition != "" {
			out["$"+v.Name] = []string{v.Definition}
		}
	}
	require.Greater(t, len(out), 30)
	return out
}

// The predecessor's design had alerts on metrics that nothing exported.
func TestEveryMetricOfTheRulesAndTheDashboardIsExported(t *testing.T) {
	exported := map[string]bool{}
	for _, f := range series.Families {
		exported[f.Name] = true
	}
	require.Greater(t, len(exported), 50)
	named := regexp.MustCompile(`\b(?:rocm|concourse|DCGM)_\w+`)
	check := func(where, expr string) {
		names := named.FindAllString(expr, -1)
		if len(names) == 0 {
			require.Regexp(t, `\b(up|ALERTS)\{`, expr, where)
		}
		for _, name := range names {
			require.True(t, exported[name], "%s: the exporter has no metric %s", where, name)
		}
	}
	for _, g := range shippedRules(t).Groups {
		for _, r := range g.Rules {
			check(r.Alert, r.Expr)
			for _, text := range r.Annotations {
				for _, name := range named.FindAllString(text, -1) {
					require.True(t, exported[name], "%s: the exporter has no metric %s", r.Alert, name)
				}
			}
		}
	}
	for panel, queries := range dashboardQueries(t) {
		for _, q := range queries {
			check(panel, q)
		}
	}
}

func TestRulesMatchTheDocumentedAlerts(t *testing.T) {
	type want struct{ group, severity, wait string }
	promised := map[string]want{
		"AMDGPUMemoryError":       {"amd_gpu_critical", "critical", ""},
		"AMDGPUHang":              {"amd_gpu_critical", "critical", ""},
		"AMDGPUHighTemperature":   {"amd_gpu_warning", "warning", "5m"},
		"AMDGPUThermalThrottling": {"amd_gpu_warning", "warning", "5m"},
		"AMDGPUMemoryUsageHigh":   {"amd_gpu_warning", "warning", "10m"},
	}
	interval := map[string]string{"amd_gpu_critical": "30s", "amd_gpu_warning": "60s"}
	data, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	var file ruleGroups
	require.NoError(t, yaml.Unmarshal(data, &file))
	for _, g := range file.Groups {
		require.Equal(t, interval[g.Name], g.Interval, g.Name)
		for _, r := range g.Rules {
			category := "amd"
			if strings.HasPrefix(r.Alert, "Concourse") {
				category = "concourse"
			}
			require.Equal(t, category, r.Labels["category"], r.Alert)
			require.Equal(t, strings.TrimPrefix(g.Name, "amd_gpu_"), r.Labels["severity"], r.Alert)
			require.Contains(t, r.Annotations["summary"], "{{ $labels.juju_unit }}", r.Alert)
			require.Contains(t, r.Annotations["description"], "{{ $labels.juju_unit }}", r.Alert)
			if p, ok := promised[r.Alert]; ok {
				require.Equal(t, p, want{g.Name, r.Labels["severity"], r.For}, r.Alert)
				require.Regexp(t, `juju run \{\{ \$labels\.juju_unit \}\} explain-error code=[1-8]\b`, r.Annotations["description"])
				delete(promised, r.Alert)
			}
		}
	}
	require.Empty(t, promised)
}

func TestDashboardUsesTheSelectedDataSource(t *testing.T) {
	data, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`"type": "prometheus",\s*"uid": "([^"]*)"`).FindAllStringSubmatch(string(data), -1) {
		require.Equal(t, "${prometheusds}", m[1])
	}
	for panel, queries := range dashboardQueries(t) {
		for _, q := range queries {
			for _, m := range regexp.MustCompile(`\b(?:rocm|concourse)_\w+(.)`).FindAllStringSubmatch(q, -1) {
				if !strings.HasPrefix(panel, "$") {
					require.Equal(t, "{", m[1], "%s: %s is not narrowed down to the units that are chosen", panel, m[0])
				}
			}
		}
	}
}
