//go:build e2e

package pebble

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
)

// The helper runs a stand-in for nvidia-smi as root, with the rights of Pebble's unit; the
// exporter, which runs as nobody, shows what it wrote.
func TestWhatNVIDIASMIReportedIsShownByTheExporter(t *testing.T) {
	t.Parallel()
	u := newUnitOf(t, "nvidia-only", "cuda")
	require.NoError(t, u.gpus.WriteFile("/usr/bin/nvidia-smi", []byte(`#!/bin/sh
[ "$(id -u)" = 0 ] || exit 1
case "$1" in
--help*) printf '"pci.bus_id"\n"uuid"\n"temperature.gpu"\n"temperature.gpu.tlimit"\n' ;;
*) echo "00000000:0A:00.0, GPU-7c1e9a42-0d5b-3f86-a917-52ee60b4c3d8, 61, 23" ;;
esac
`), 0o700))
	d := u.start(t)
	var text string
	eventually(t, func() bool {
		_, text = d.get("/metrics")
		return strings.Contains(text, "rocm_gpu_temperature{")
	}, "nothing is told: %s", text)
	require.Regexp(t, `(?m)^rocm_gpu_temperature_crit_celsius\{.*sensor="gpu".*\} 84$`, text)
	require.Regexp(t, `(?m)^rocm_gpu_health_info\{.*state="healthy".*\} 1$`, text)
	require.NotContains(t, text, "rocm_exporter_read_errors_total{")
	require.True(t, u.gpus.Exists(role.NVIDIAReport))
	require.False(t, u.gpus.Exists(role.UsageReport))
}
