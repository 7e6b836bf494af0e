package gpu_test

import (
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// counts is how many GPUs of each vendor are a host's own.
type counts struct{ amd, nvidia int }

func expectedCounts() map[string]counts {
	return map[string]counts{
		"no-gpu": {0, 0}, "amd": {1, 0}, "amd-nvidia": {1, 0}, "nvidia-only": {0, 1}, "both-passed": {1, 1},
		"mi210x4": {4, 0}, "mi300x-cpx": {9, 0}, "apu-gfx1103": {1, 0}, "amd-no-kfd": {1, 0},
		"amd-kfd-mismatch": {1, 0}, "amd-unreadable": {0, 0}, "bmc-vfio": {0, 0},
	}
}

// TestOtherVendorsAreUnusable: D45, the predecessor took every node below /dev/dri for
// AMD's. What the kernel reports for each counted GPU is read here again, from the files
// themselves.
func TestOtherVendorsAreUnusable(t *testing.T) {
	want := expectedCounts()
	require.Len(t, hosttest.HostNames(), len(want), "each fixture host needs its counts here")
	for _, name := range hosttest.HostNames() {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, name)
			inv := discover(t, r)
			require.Equal(t, want[name], counts{len(inv.GPUsOf(gpu.AMD)), len(inv.GPUsOf(gpu.NVIDIA))})
			for _, g := range inv.GPUs {
				requireOwn(t, r, g)
			}
		})
	}
}

func requireOwn(t *testing.T, r host.Root, g gpu.GPU) {
	t.Helper()
	vendor, err := r.ReadText(path.Join(g.Sysfs, "vendor"))
	require.NoError(t, err)
	require.Equal(t, map[gpu.Vendor]string{gpu.AMD: "0x1002", gpu.NVIDIA: "0x10de"}[g.Vendor], vendor)
	number, err := r.ReadText(path.Join("/sys/class/drm", path.Base(g.Render.Path), "dev"))
	require.NoError(t, err)
	require.Equal(t, number, g.Render.Number())
	node, err := r.Node(g.Render.Path)
	require.NoError(t, err)
	require.Equal(t, number, node.Number())
}

// TestNodesWithoutAPCIDeviceAreNotGPUs: render nodes alone, whoever's they are, count for
// nothing without a GPU in sysfs, and every node of the host without its GPU's
// own one counts for nothing either.
func TestNodesWithoutAPCIDeviceAreNotGPUs(t *testing.T) {
	r := hosttest.Host(t, "no-gpu")
	hosttest.Put(t, r, "/dev/dri/renderD128", "226:128 0660 0 44")
	hosttest.Put(t, r, "/dev/kfd", "235:0 0660 0 44")
	require.Empty(t, discover(t, r).GPUs)

	r = hosttest.Host(t, "amd-nvidia")
	require.NoError(t, os.Rename(r.Path("/dev/dri/renderD128"), r.Path("/dev/dri/renderD129")))
	inv := discover(t, r)
	require.Empty(t, inv.GPUs)
	require.Equal(t, gpu.WrongNumber, inv.UnusableOf(gpu.NVIDIA)[0].Reason, "the Radeon's node under the GeForce's name")
	require.Equal(t, gpu.NotPassedThrough, inv.UnusableOf(gpu.AMD)[0].Reason)
}

// TestVendorComesFromSysfs turns the AMD card of each host into one of another maker:
// whatever driver is bound, AMD's GPUs are missing.
func TestVendorComesFromSysfs(t *testing.T) {
	for name, n := range expectedCounts() {
		if n.amd == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, name)
			for _, g := range discover(t, r).GPUsOf(gpu.AMD) {
				uevent, err := r.ReadText(path.Join(g.Sysfs, "uevent"))
				require.NoError(t, err)
				hosttest.Put(t, r, path.Join(g.Sysfs, "vendor"), "0x8086\n")
				hosttest.Put(t, r, path.Join(g.Sysfs, "uevent"), strings.ReplaceAll(uevent, "PCI_ID=1002:", "PCI_ID=8086:")+"\n")
			}
			inv := discover(t, r)
			require.Empty(t, inv.GPUsOf(gpu.AMD))
			require.Len(t, inv.GPUsOf(gpu.NVIDIA), n.nvidia)
		})
	}
}

// GPUs are numbered by vendor, so a second vendor with a feature needs its own numbers.
func TestEachFeatureBelongsToOneVendor(t *testing.T) {
	has := map[gpu.Feature]gpu.Vendor{}
	for _, v := range gpu.Vendors() {
		require.NotEmpty(t, v.Label())
		for _, f := range v.Traits().Features {
			require.NotContains(t, has, f)
			has[f] = v
			require.Equal(t, v, gpu.VendorWith(f))
		}
	}
}
