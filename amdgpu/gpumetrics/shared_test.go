package gpumetrics

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// Tables made by others: all ones, and numbered.
func TestTablesFromOtherProjects(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(hosttest.Captures(t, "gpu_metrics"), "*.bin"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			r, values, err := Decode(b, nil)
			require.NoError(t, err)
			require.Contains(t, file, "_"+r.String()+".")
			if strings.HasSuffix(file, ".allna.bin") {
				require.Empty(t, values)
				return
			}
			require.NotEmpty(t, values)
			seen := map[uint64]Field{}
			for _, v := range values {
				require.NotContains(t, seen, v.Raw, "read twice, last by %s", v.Field)
				seen[v.Raw] = v.Field
			}
		})
	}
}

func TestTablesOfRealGPUs(t *testing.T) {
	captures := hosttest.Captures(t, "fixtures")
	read := func(name string) (Revision, map[string]float64, error) {
		b, err := os.ReadFile(filepath.Join(captures, name))
		require.NoError(t, err)
		r, values, err := Decode(b, nil)
		return r, text(values), err
	}
	r, got, err := read("sysfs/phoenix/card1/device/gpu_metrics")
	require.NoError(t, err)
	require.Equal(t, "v2_1", r.String())
	require.InDelta(t, 25, got["temperature_gfx"], 1e-9)
	require.InDelta(t, 0.0079, got["average_gfx_activity"], 1e-9)
	require.InDelta(t, 800e6, got["average_gfxclk_frequency"], 1)

	r, got, err = read("sysfs/rx6900xt/card0/device/gpu_metrics")
	require.NoError(t, err)
	require.Equal(t, "v1_3", r.String())
	require.InDelta(t, 56, got["temperature_edge"], 3)
	require.InDelta(t, 16e9, got["pcie_link_speed"], 1)

	for name, want := range map[string]string{"gpu_metrics-v1_3-mangohud.bin": "v1_3", "gpu_metrics-v2_2-mangohud.bin": "v2_2"} {
		r, got, err := read(name)
		require.NoError(t, err)
		require.Equal(t, want, r.String())
		require.NotEmpty(t, got)
	}
	_, got, err = read("gpu_metrics-invalid-mangohud.bin")
	require.Error(t, err)
	require.Empty(t, got)
}
