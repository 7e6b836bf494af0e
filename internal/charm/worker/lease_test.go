package worker

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

const requestTimeout = "CONCOURSE_CONTAINERD_REQUEST_TIMEOUT"

func exclusive(more ...string) map[string]any {
	set := map[string]any{"compute-runtime": "rocm", "gpu-sharing": "exclusive"}
	for i := 0; i < len(more); i += 2 {
		set[more[i]] = more[i+1]
	}
	return set
}

// linked returns observed with the links.
func linked(t *testing.T, r host.Root, set map[string]any) Observed {
	t.Helper()
	o := observed(t, r, set)
	o.ObserveLinks(r)
	return o
}

// xgmi joins the GPUs 2 and 3, and 4 and 5, as KFD counts them.
func xgmi(t *testing.T, r host.Root) {
	t.Helper()
	for _, pair := range [][2]int{{2, 3}, {4, 5}} {
		hosttest.Put(t, r, fmt.Sprintf("/sys/class/kfd/kfd/topology/nodes/%d/io_links/0/properties", pair[0]),
			fmt.Sprintf("type 11\nnode_from %d\nnode_to %d\nweight 15\n", pair[0], pair[1]))
	}
}

func TestExclusiveGPUsAreLeased(t *testing.T) {
	for name, c := range map[string]struct {
		host    string
		set     map[string]any
		want    *oci.Leases
		timeout string // "" is Concourse's own
	}{
		"shared":          {"mi210x4", map[string]any{"compute-runtime": "rocm"}, nil, ""},
		"one GPU":         {"amd", exclusive(), &oci.Leases{Dir: "/run/concourse-ci-machine/gpu-leases"}, ""},
		"no GPU to lease": {"no-gpu", exclusive(), nil, ""},
		"hives": {"mi210x4", exclusive(), &oci.Leases{Dir: "/run/concourse-ci-machine/gpu-leases",
			Links: [][]int{{0, 8, 0, 0}, {8, 0, 0, 0}, {0, 0, 0, 8}, {0, 0, 8, 0}}}, ""},
		"some of the GPUs": {"mi210x4", exclusive("gpu-device-ids", "0,2,3"), &oci.Leases{Dir: "/run/concourse-ci-machine/gpu-leases",
			Links: [][]int{{0, 0, 0}, {0, 0, 8}, {0, 8, 0}}}, ""},
		"no two of a hive": {"mi210x4", exclusive("gpu-device-ids", "0,2"), &oci.Leases{Dir: "/run/concourse-ci-machine/gpu-leases"}, ""},
		"partitions": {"mi300x-cpx", exclusive("gpu-device-ids", "0-1,8"), &oci.Leases{Dir: "/run/concourse-ci-machine/gpu-leases",
			Links: [][]int{{0, 64, 0}, {64, 0, 0}, {0, 0, 0}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, c.host)
			if c.host == "mi210x4" {
				xgmi(t, r)
			}
			d := Desire(linked(t, r, c.set), nil)
			if data, ok := resourcetest.File(d.Resources, oci.DefaultConfig); ok {
				require.NoError(t, oci.CheckConfig([]byte(data)))
				require.Equal(t, c.want, wrapperOf(t, d).Leases)
			} else {
				require.Nil(t, c.want)
			}
			require.Equal(t, c.timeout, env(t, d)[requestTimeout])
			layer, ok := resourcetest.File(d.Resources, role.ExporterLayer)
			require.True(t, ok)
			if c.want == nil {
				require.True(t, absent(d, pool.ReportFile))
				require.NotContains(t, layer, "leases")
			} else {
				require.False(t, absent(d, pool.ReportFile))
				require.Contains(t, layer, " --leases.report=/run/concourse-ci-machine/gpu-leases.json ")
				require.Contains(t, layer, " -- /opt/concourse-ci-machine/bin/dispatch gpu watch\n")
			}
		})
	}
}

func TestLinksAreReadOnlyForLeases(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	require.Len(t, linked(t, r, exclusive()).Links, 4)
	require.Nil(t, linked(t, r, map[string]any{"compute-runtime": "rocm"}).Links)
}

func TestBetterLinksWeighMore(t *testing.T) {
	ordered := []gpu.Link{{}, {NUMA: true}, {Hops: 9}, {Hops: 3, NUMA: true}, {Hops: 2, NUMA: true}, {Hops: 1}, {Hops: 1, NUMA: true}, {Same: true, NUMA: true}}
	weight := func(l gpu.Link) int { return lease.LinkWeight(l.Same, l.Hops, l.NUMA) }
	for i, l := range ordered[1:] {
		require.Greater(t, weight(l), weight(ordered[i]), "%+v", l)
		require.LessOrEqual(t, weight(l), oci.MaxLink)
	}
	require.Equal(t, weight(gpu.Link{Same: true}), weight(gpu.Link{Same: true, NUMA: true, Hops: 1}))
}

// The status has one text for shared and exclusive GPUs. Options without an effect are
// warnings.
func TestStatusOfExclusiveGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		host  string
		set   map[string]any
		want  string
		after string
	}{
		"exclusive":    {"mi210x4", exclusive(), "active: Ready", " (GPU: 4x AMD)"},
		"without GPUs": {"amd", map[string]any{"gpu-sharing": "exclusive"}, "active: Ready; gpu-sharing=exclusive has no effect while compute-runtime=none", ""},
		"reset while shared": {"mi210x4", map[string]any{"compute-runtime": "rocm", "gpu-quarantine": "reset"},
			"active: Ready; gpu-quarantine=reset is as auto while gpu-sharing=shared", " (GPU: 4x AMD)"},
		"reset":            {"mi210x4", exclusive("gpu-quarantine", "reset"), "active: Ready", " (GPU: 4x AMD)"},
		"no GPU found yet": {"no-gpu", exclusive("compute-runtime", "auto"), "active: Ready; no GPU passed through", ""},
	} {
		d := Desire(linked(t, hosttest.Host(t, c.host), c.set), nil)
		require.Equal(t, c.want, text("Ready", d.Causes), name)
		require.Equal(t, c.after, d.Suffix, name)
	}
}

// The wrapper reads its config for each container, so leases need no restart.
func TestLeasesDoNotRestartTheWorker(t *testing.T) {
	r := hosttest.Host(t, "amd")
	base := running(observed(t, r, map[string]any{"compute-runtime": "rocm"}))
	on := base
	on.Config.GPU.Sharing = config.Exclusive
	inputs := func(o Observed, name string) [][]byte {
		return resourcetest.Trigger(t, Desire(o, nil).Resources, name).Inputs
	}
	require.Equal(t, inputs(base, RestartWorker), inputs(on, RestartWorker))
	require.NotEqual(t, inputs(base, role.RestartPebble), inputs(on, role.RestartPebble), "the exporter has another flag")
}

func TestClocksOfWholeLeasedGPUsAreFixed(t *testing.T) {
	const first = "0000:23:00.0"
	for name, c := range map[string]struct {
		host string
		set  map[string]any
		want *fixedclocks.Setting // of the first GPU
		n    int                  // GPUs with fixed clocks
	}{
		"not wanted":     {"mi210x4", exclusive(), nil, 0},
		"shared":         {"mi210x4", map[string]any{"compute-runtime": "rocm", "gpu-fixed-clocks": true}, nil, 0},
		"whole":          {"mi210x4", exclusive(), &fixedclocks.Setting{Sysfs: fixedclocks.Devices + "/" + first, Level: fixedclocks.Standard}, 4},
		"NVIDIA's":       {"nvidia-only", map[string]any{"compute-runtime": "cuda", "gpu-sharing": "exclusive"}, nil, 0},
		"the first part": {"mi300x-cpx", exclusive("gpu-device-ids", "0-1"), &fixedclocks.Setting{Sysfs: fixedclocks.Devices + "/0000:0a:00.0", Level: fixedclocks.Determinism}, 1},
	} {
		if name != "not wanted" {
			c.set["gpu-fixed-clocks"] = true
		}
		d := Desire(observed(t, hosttest.Host(t, c.host), c.set), nil)
		data, ok := resourcetest.File(d.Resources, oci.DefaultConfig)
		require.True(t, ok, name)
		require.NoError(t, oci.CheckConfig([]byte(data)), name)
		gpus, n := wrapperOf(t, d).GPUs, 0
		for _, g := range gpus {
			if g.Clocks != nil {
				n++
			}
		}
		require.Equal(t, c.n, n, name)
		if c.n > 0 {
			require.Equal(t, c.want, gpus[0].Clocks, name)
		}
	}
}

func TestClockLevelIsSupportedByTheDriver(t *testing.T) {
	for gfx, want := range map[string]fixedclocks.Level{"gfx90a": fixedclocks.Standard, "gfx1100": fixedclocks.Standard, "": fixedclocks.Standard, "gfx942": fixedclocks.Determinism, "gfx950": fixedclocks.Determinism} {
		require.Equal(t, want, clockLevel(gfx), gfx)
	}
}

// A unit that stops watching resets the clocks in a separate process, before its files are
// removed.
func TestRemovedUnitResetsClocks(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	hosttest.Put(t, r, fixedclocks.DefaultDir+"/0000:03:00.0", `{"container":"c1","boot":"b","level":"profile_standard"}`)
	hosttest.Put(t, r, fixedclocks.DefaultDir+"/0000:43:00.0", "  \n")
	hosttest.Put(t, r, fixedclocks.DefaultDir+"/0000:83:00.0", "damaged")
	hosttest.Put(t, r, fixedclocks.DefaultDir+"/.lock", "")
	p, err := ClockReset{"/charm/dispatch", "gone"}.Diff(t.Context(), host.Host{Root: r})
	require.NoError(t, err)
	var ops []string
	for _, s := range p {
		require.True(t, s.Tolerate)
		ops = append(ops, s.Op)
	}
	require.Equal(t, []string{"restore the clocks of GPU 0000:03:00.0", "restore the clocks of GPU 0000:83:00.0"}, ops)
	require.IsType(t, ClockReset{}, RemoveAll(observed(t, r, exclusive()).Observed, "gone")[0])
}
