package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const source = "../../src"

// written returns the files of the package.
func written(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, write(source, dir))
	out := map[string]string{}
	for _, m := range made {
		data, err := os.ReadFile(filepath.Join(dir, m.name))
		require.NoError(t, err)
		out[m.name] = string(data)
	}
	return out
}

func TestPackageNamesHostsAndItsOwnCommands(t *testing.T) {
	files := written(t)
	for name, text := range files {
		require.NotRegexp(t, `(?i)juju|on the unit|of the charm|explain-error|[^/]gpu-health`, text, name)
		require.NotContains(t, text, "dispatch ", name)
		require.NotContains(t, text, "concourse-pebble", name)
		require.NotRegexp(t, `\bof (\{\{ \$labels\.\w+ \}\} )?(worker|unit)\b`, text, name)
	}
	alerts := files["prometheus-alerts.yaml"]
	require.Contains(t, alerts, "summary: GPU {{ $labels.gpu }} of {{ $labels.instance }} hangs or was reset")
	require.Contains(t, alerts, "action: gpukit explain 2\n")
	require.Contains(t, alerts, "action: gpukit gpu health\n")
	require.NotContains(t, alerts, "AMDGPULeasedIdle", "there are no leases")
	require.NotContains(t, alerts, "ConcourseWorkerDiskFull")
	require.Contains(t, files["loki-alerts.yaml"], "AMDGPUResetFailed")
	require.NotContains(t, files["loki-alerts.yaml"], "UNIT")
	board := files["grafana-dashboard.json"]
	require.Contains(t, board, "max by (instance, gpu, pci_bus_id")
	require.NotContains(t, board, "rocm_gpu_lease")
	require.Contains(t, board, "On the host: gpukit gpu health.")
	require.Contains(t, board, "On the host: gpukit explain 2.")
	require.Contains(t, board, "On the host: gpukit explain 6 7.")
	require.Contains(t, board, "Alerts that fire.")
	require.Contains(t, board, "its state, readings and the status page")
}

func TestTextWithoutWordsIsNamed(t *testing.T) {
	const rule = "groups: [{name: g, interval: 30s, rules: [{alert: A, expr: up, labels: {category: amd}, annotations: {action: TEXT}}]}]"
	_, err := convertRules([]byte(strings.Replace(rule, "TEXT", "juju run UNIT explain-error code=3", 1)))
	require.NoError(t, err)
	_, err = convertRules([]byte(strings.Replace(rule, "TEXT", "juju run UNIT dance", 1)))
	require.ErrorContains(t, err, "cannot convert")
	require.ErrorContains(t, err, "juju run UNIT dance")
	for _, text := range []string{"On the unit", "rules of the charm", "see explain-error", "see gpu-health"} {
		_, err = convertRules([]byte(strings.Replace(rule, "TEXT", text, 1)))
		require.ErrorContains(t, err, text)
	}
	_, err = convertRules([]byte(strings.Replace(rule, "alert:", "record:", 1)))
	require.Error(t, err, "a field that would be lost")
}
