package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/pool/clockpin"
	"concourse-ci-machine/internal/testutil/hosttest"
	"concourse-ci-machine/internal/testutil/resourcetest"
)

func TestClocksOfWholeLeasedGPUsMayBeFixed(t *testing.T) {
	const first = "0000:23:00.0"
	for name, c := range map[string]struct {
		host string
		set  map[string]any
		want []oci.BenchGPU // the first
		n    int
	}{
		"not wanted":     {"mi210x4", exclusive(), nil, 0},
		"shared":         {"mi210x4", map[string]any{"compute-runtime": "rocm", "gpu-bench": true}, nil, 0},
		"whole":          {"mi210x4", exclusive(), []oci.BenchGPU{{Name: first, Sysfs: clockpin.Devices + "/" + first, Level: clockpin.Standard}}, 4},
		"NVIDIA's":       {"nvidia-only", map[string]any{"compute-runtime": "cuda", "gpu-sharing": "exclusive"}, nil, 0},
		"the first part": {"mi300x-cpx", exclusive("gpu-device-ids", "0-1"), []oci.BenchGPU{{Name: "0000:0a:00.0", Sysfs: clockpin.Devices + "/0000:0a:00.0", Level: clockpin.Determinism}}, 1},
	} {
		if name != "not wanted" {
			c.set["gpu-bench"] = true
		}
		d := Desire(observed(t, hosttest.Host(t, c.host), c.set), nil)
		data, ok := resourcetest.File(d.Resources, oci.DefaultConfig)
		require.True(t, ok, name)
		require.NoError(t, oci.CheckConfig([]byte(data)), name)
		l := wrapperOf(t, d).Leases
		if c.n == 0 {
			require.True(t, l == nil || l.Bench == nil, name)
			continue
		}
		require.Equal(t, clockpin.DefaultDir, l.Bench.Dir)
		require.Len(t, l.Bench.GPUs, c.n, name)
		require.Equal(t, c.want, l.Bench.GPUs[:1], name)
	}
}

func TestLevelIsWhatTheDriverHas(t *testing.T) {
	for gfx, want := range map[string]clockpin.Level{"gfx90a": clockpin.Standard, "gfx1100": clockpin.Standard, "": clockpin.Standard, "gfx942": clockpin.Determinism, "gfx950": clockpin.Determinism} {
		require.Equal(t, want, clockLevel(gfx), gfx)
	}
}

// A unit that looks no more gives back what is set, by a process of its own, before its
// files go.
func TestUnitThatLeavesGivesClocksBack(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	hosttest.Put(t, r, clockpin.DefaultDir+"/0000:03:00.0", `{"container":"c1","boot":"b","level":"profile_standard"}`)
	hosttest.Put(t, r, clockpin.DefaultDir+"/0000:43:00.0", "  \n")
	hosttest.Put(t, r, clockpin.DefaultDir+"/0000:83:00.0", "damaged")
	hosttest.Put(t, r, clockpin.DefaultDir+"/.lock", "")
	p, err := clockReset{"/charm", "gone"}.Diff(t.Context(), host.Host{Root: r})
	require.NoError(t, err)
	var ops []string
	for _, s := range p {
		require.True(t, s.Tolerate)
		ops = append(ops, s.Op)
	}
	require.Equal(t, []string{"give GPU 0000:03:00.0 its own clocks back", "give GPU 0000:83:00.0 its own clocks back"}, ops)
	require.IsType(t, clockReset{}, RemoveAll(observed(t, r, exclusive()).Observed, "gone")[0])
}
