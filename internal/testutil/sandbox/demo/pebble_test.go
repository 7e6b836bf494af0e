package demo

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
)

func TestDemoStartsTheServicesThatReadGPUs(t *testing.T) {
	moved, err := moveLayer([]byte(`
services:
  rocm-exporter: {override: replace, startup: enabled, command: /opt/bin/rocm-exporter serve --path.root=/}
  gpu-reports: {override: replace, startup: enabled, command: /opt/bin/rocm-exporter write-gpus /run/x --vendor=amd -- /opt/bin/dispatch gpu watch}
  others: {override: replace, startup: enabled, command: /opt/bin/others}
checks:
  rocm-exporter: {override: replace, http: {url: "http://127.0.0.1:9401/-/healthy"}}
  gpu-check: {override: replace, exec: {command: /opt/bin/check}}
`), "/tmp/x", "127.0.0.1:1")
	require.NoError(t, err)
	var l struct {
		Services, Checks map[string]struct{ Startup, Command string }
	}
	require.NoError(t, yaml.Unmarshal(moved, &l))
	require.Equal(t, "disabled", l.Services["others"].Startup)
	require.Equal(t, "enabled", l.Services["gpu-reports"].Startup)
	require.Equal(t, "/tmp/x/opt/bin/rocm-exporter write-gpus "+role.GPUReport+" --path.root=/tmp/x", l.Services["gpu-reports"].Command)
	require.Equal(t, "disabled", l.Checks["gpu-check"].Startup)
	require.Equal(t, "enabled", l.Services["rocm-exporter"].Startup)
	require.Equal(t, "/tmp/x/opt/bin/rocm-exporter serve --web.listen-address=127.0.0.1:1 --path.root=/tmp/x", l.Services["rocm-exporter"].Command)
}
