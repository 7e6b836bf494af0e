// Command monitoring writes the alert rules and the dashboard of the package
// rocm-gpu-exporter, which runs without Juju. Their source is the charm's. A host is the
// label instance, and the remedies are commands of gpukit. Rules and panels of leases,
// quarantine and tasks are left out. It never changes the charm's files.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// made lists the files of the package by their source.
var made = []struct {
	source, name string
	convert      func([]byte) ([]byte, error)
}{
	{"prometheus_alert_rules/amd-alerts.yaml", "prometheus-alerts.yaml", convertRules},
	{"loki_alert_rules/amd-logs.yaml", "loki-alerts.yaml", convertRules},
	{"grafana_dashboards/amd-gpu.json", "grafana-dashboard.json", convertDashboard},
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "cannot write alerts and dashboard: want monitoring SOURCE FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "cannot write alerts and dashboard:", err)
		os.Exit(1)
	}
}

// write converts all files below source, such as src, into the folder to.
func write(source, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, m := range made {
		data, err := os.ReadFile(filepath.Join(source, m.source))
		if err == nil {
			data, err = m.convert(data)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, m.name), data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.source, err)
		}
	}
	return nil
}
