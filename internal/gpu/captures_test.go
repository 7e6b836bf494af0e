package gpu_test

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// TestCapturedGPUs takes /sys/class/drm/cardN of real machines, which were
// taken without their render nodes, and gives them one.
func TestCapturedGPUs(t *testing.T) {
	for name, tc := range map[string]struct {
		card, pci, name, gfx string
		vendor               gpu.Vendor
		kfd                  bool
	}{
		"rx7900xtx":      {"card0", "0000:03:00.0", "AMD GPU 1002:744c", "", gpu.AMD, false}, // no revision captured
		"rx6900xt":       {"card0", "", "", "", gpu.AMD, false},
		"rx580":          {"card0", "", "", "", gpu.AMD, false},
		"vega56":         {"card0", "", "", "", gpu.AMD, false},
		"vangogh":        {"card0", "0000:04:00.0", "AMD Custom GPU 0405", "gfx1033", gpu.AMD, true},
		"phoenix":        {"card1", "0000:64:00.0", "AMD Radeon 780M/760M/740M", "gfx1103", gpu.AMD, true},
		"nvidia/rtx4080": {"card1", "0000:09:00.0", "NVIDIA GeForce RTX 4080", "", gpu.NVIDIA, false},
	} {
		t.Run(name, func(t *testing.T) {
			from := hosttest.Captures(t, filepath.Join("fixtures/sysfs", name))
			r := host.Root(t.TempDir())
			copyTree(t, filepath.Join(from, tc.card), r.Path("/sys/class/drm/card1"))
			if tc.kfd {
				copyTree(t, filepath.Join(from, "kfd"), r.Path("/sys/class/kfd/kfd"))
			}
			inv := discover(t, r)
			require.Empty(t, inv.GPUs)
			require.Len(t, inv.Unusable, 1)
			require.Equal(t, gpu.NoRenderNode, inv.Unusable[0].Reason)

			uevent, err := r.ReadText("/sys/class/drm/card1/device/uevent")
			require.NoError(t, err)
			hosttest.Put(t, r, "/sys/class/drm/renderD128/device/uevent", uevent)
			hosttest.Put(t, r, "/sys/class/drm/renderD128/dev", "226:128\n")
			hosttest.Put(t, r, "/dev/dri/renderD128", "226:128 0660 0 44")
			inv = discover(t, r)
			require.Len(t, inv.GPUsOf(tc.vendor), 1)
			require.Len(t, inv.GPUs, 1)
			g := inv.GPUs[0]
			require.Equal(t, tc.gfx, g.GFX)
			require.NotEmpty(t, g.Model)
			if tc.pci != "" {
				require.Equal(t, tc.pci, g.PCI)
				require.Equal(t, tc.name, g.Model)
			}
		})
	}
}

// TestCapturedTopology: KFD's nodes of a machine with several MI210, each
// given a PCI device to belong to.
func TestCapturedTopology(t *testing.T) {
	r := host.Root(t.TempDir())
	copyTree(t, hosttest.Captures(t, "fixtures/"+"kfd/topo-mi210-xgmi-pcie/nodes"), r.Path(nodes))
	plainGPU(t, r, "0000:63:00.0", 0, 128)
	plainGPU(t, r, "0000:43:00.0", 1, 129)
	inv := discover(t, r)
	require.Equal(t, []string{"0000:43:00.0/0 226:129 3", "0000:63:00.0/0 226:128 2"}, lines(inv))
	require.Equal(t, "gfx90a", inv.GPUs[0].GFX)
	require.Equal(t, "1901ead3a2ecd4a6", inv.GPUs[1].UniqueID)
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(path.Dir(to), 0o755))
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
}
