package gpu_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const (
	nodes  = "/sys/class/kfd/kfd/topology/nodes"
	whole  = "0000:0a:00.0" // of host mi300x-cpx: in eight partitions
	single = "0000:1b:00.0" // the other GPU there, not partitioned
)

// lines is a GPU in short: address, partition, render node, KFD node.
func lines(inv gpu.Inventory) (out []string) {
	for _, g := range inv.GPUs {
		out = append(out, fmt.Sprintf("%s/%d %s %d", g.PCI, g.Partition, g.Render.Number(), g.KFDNode))
	}
	return out
}

// refuse makes a topology node unreadable, as the kernel does for GPUs that the device
// cgroup does not allow; a directory also stops root.
func refuse(t *testing.T, r host.Root, n int) {
	t.Helper()
	p := fmt.Sprintf("%s/%d/properties", nodes, n)
	require.NoError(t, r.Remove(p))
	require.NoError(t, os.Mkdir(r.Path(p), 0o755))
}

func TestPartitionsBelongToTheirGPU(t *testing.T) {
	inv := discover(t, hosttest.Host(t, "mi300x-cpx"))
	require.Empty(t, inv.Unusable, "the seven spare partition devices of the whole GPU are nobody's loss")
	var want []string
	for p := range 8 {
		want = append(want, fmt.Sprintf("%s/%d 226:%d %d", whole, p, 128+p, 2+p))
	}
	require.Equal(t, append(want, single+"/0 226:136 10"), lines(inv))
	ids := map[string]bool{}
	for _, g := range inv.GPUs {
		require.Len(t, g.UniqueID, 16)
		ids[g.UniqueID] = true
		require.Equal(t, uint16(0x74a1), g.DeviceID)
	}
	require.Len(t, ids, 9, "each partition has an id of its own")
}

// TestContainerWithSomePartitions: a unit that was given partitions 2 and 5
// only. Nodes of the others may not be read, nor are their nodes in /dev.
func TestContainerWithSomePartitions(t *testing.T) {
	r := hosttest.Host(t, "mi300x-cpx")
	for n := 2; n <= 10; n++ {
		if n != 4 && n != 7 {
			refuse(t, r, n)
			require.NoError(t, r.Remove(fmt.Sprintf("/dev/dri/renderD%d", 126+n)))
		}
	}
	inv := discover(t, r)
	require.Equal(t, []string{whole + "/2 226:130 4", whole + "/5 226:133 7"}, lines(inv))
	require.Equal(t, "/sys/devices/platform/amdgpu_xcp_1", inv.GPUs[0].DRM)
}

// TestPartitionsOfOlderKernels: location_id without the partition, one id for
// all, and platform devices that the DRM class does not show.
func TestPartitionsOfOlderKernels(t *testing.T) {
	r := hosttest.Host(t, "mi300x-cpx")
	for p := range 8 {
		hosttest.Put(t, r, fmt.Sprintf("%s/%d/properties", nodes, 2+p),
			fmt.Sprintf("gfx_target_version 90402\nlocation_id %d\ndomain 0\ndrm_render_minor %d\nunique_id 16577489000000000000\n", 0x0a<<8, 128+p))
		if p > 0 {
			require.NoError(t, r.Remove(fmt.Sprintf("/sys/class/drm/renderD%d", 128+p)))
			require.NoError(t, r.Remove(fmt.Sprintf("/sys/class/drm/card%d", p)))
		}
	}
	inv := discover(t, r)
	require.Len(t, inv.GPUs, 9)
	for p, g := range inv.GPUs[:8] {
		require.Equal(t, p, g.Partition)
		require.Equal(t, p == 0, g.UniqueID != "", "an id names one GPU")
		require.Equal(t, fmt.Sprintf("/dev/dri/renderD%d", 128+p), g.Render.Path)
	}
}

// TestPartitionInFunctionBits: the first kernels with partitions added the
// number to location_id's function.
func TestPartitionInFunctionBits(t *testing.T) {
	r := hosttest.Host(t, "mi300x-cpx")
	for p := range 8 {
		hosttest.Put(t, r, fmt.Sprintf("%s/%d/properties", nodes, 2+p),
			fmt.Sprintf("gfx_target_version 90402\nlocation_id %d\ndomain 0\ndrm_render_minor %d\n", 0x0a<<8|p, 128+p))
	}
	inv := discover(t, r)
	require.Len(t, inv.GPUs, 9)
	for p, g := range inv.GPUs[:8] {
		require.Equal(t, whole, g.PCI)
		require.Equal(t, p, g.Partition)
	}
}

// TestUnreadableTopologyIsNormal: without it a GPU still counts; what only
// KFD knows is missing, and its partitions are unknown.
func TestUnreadableTopologyIsNormal(t *testing.T) {
	r := hosttest.Host(t, "amd")
	refuse(t, r, 1)
	g := discover(t, r).GPUs[0]
	require.Equal(t, "", g.GFX)
	require.Equal(t, -1, g.KFDNode)
	require.Equal(t, "4be2f10c93d57a68", g.UniqueID)

	r = hosttest.Host(t, "mi300x-cpx")
	require.NoError(t, os.RemoveAll(r.Path(nodes)))
	require.Equal(t, []string{whole + "/0 226:128 -1", single + "/0 226:136 -1"}, lines(discover(t, r)))
}

// TestTopologyOfAnotherGPU: the minor fits and the slot does not.
func TestTopologyOfAnotherGPU(t *testing.T) {
	r := hosttest.Host(t, "amd")
	hosttest.Put(t, r, nodes+"/1/properties", "gfx_target_version 90402\nlocation_id 25344\ndomain 0\ndrm_render_minor 128\n")
	require.Equal(t, "", discover(t, r).GPUs[0].GFX)
}

// TestUniqueIDFromKFD: without one in sysfs, KFD's decimal one is used.
func TestUniqueIDFromKFD(t *testing.T) {
	r := hosttest.Host(t, "amd")
	require.NoError(t, r.Remove(radeon+"/unique_id"))
	require.Equal(t, "4be2f10c93d57a68", discover(t, r).GPUs[0].UniqueID)
}

// Kernels before a patch of 2024-04-30 name the devices amdgpu_xcp.N.
func TestPartitionsUnderTheOlderNameOfTheKernel(t *testing.T) {
	r := hosttest.Host(t, "mi300x-cpx")
	want := lines(discover(t, r))
	const platform = "/sys/devices/platform"
	entries, err := r.ReadDir(platform)
	require.NoError(t, err)
	for _, e := range entries {
		if n, ok := strings.CutPrefix(e.Name(), "amdgpu_xcp_"); ok {
			require.NoError(t, os.Rename(r.Path(platform+"/"+e.Name()), r.Path(platform+"/amdgpu_xcp."+n)))
		}
	}
	class := "/sys/class/drm"
	entries, err = r.ReadDir(class)
	require.NoError(t, err)
	for _, e := range entries {
		to, err := os.Readlink(r.Path(class + "/" + e.Name()))
		if err == nil && strings.Contains(to, "amdgpu_xcp_") {
			require.NoError(t, r.Remove(class+"/"+e.Name()))
			require.NoError(t, os.Symlink(strings.Replace(to, "amdgpu_xcp_", "amdgpu_xcp.", 1), r.Path(class+"/"+e.Name())))
		}
	}
	require.Equal(t, want, lines(discover(t, r)))
}

// A partition is never dropped without a word.
func TestPartitionWithoutADeviceIsListedWithTheReason(t *testing.T) {
	r := hosttest.Host(t, "mi300x-cpx")
	require.NoError(t, os.RemoveAll(r.Path("/sys/devices/platform/amdgpu_xcp_2")))
	entries, err := r.ReadDir("/sys/class/drm")
	require.NoError(t, err)
	for _, e := range entries {
		if to, err := os.Readlink(r.Path("/sys/class/drm/" + e.Name())); err == nil && strings.Contains(to, "amdgpu_xcp_2/") {
			require.NoError(t, r.Remove("/sys/class/drm/"+e.Name()))
		}
	}
	inv := discover(t, r)
	require.Len(t, inv.GPUs, 8)
	require.Len(t, inv.Unusable, 1)
	require.Equal(t, gpu.NoRenderNode, inv.Unusable[0].Reason)
	require.Regexp(t, `^partition \d: KFD gives it renderD1\d\d, and no DRM device has that$`, inv.Unusable[0].Detail)
}

// The mode of a GPU names more partitions than the driver made.
func TestPartitionThatTheDriverDidNotMakeIsNamed(t *testing.T) {
	for mode, want := range map[string][]string{
		"SPX": nil, "": nil,
		"DPX": {"partition 1 of 2 in DPX"},
		"TPX": {"partition 1 of 3 in TPX", "partition 2 of 3 in TPX"},
		"CPX": {"partition 1 of 8 in CPX", "partition 2 of 8 in CPX", "partition 3 of 8 in CPX", "partition 4 of 8 in CPX",
			"partition 5 of 8 in CPX", "partition 6 of 8 in CPX", "partition 7 of 8 in CPX"},
	} {
		r := hosttest.Host(t, "mi300x-cpx")
		hosttest.Put(t, r, "/sys/devices/pci0000:19/0000:19:01.1/"+single+"/current_compute_partition", mode+"\n")
		inv := discover(t, r)
		require.Len(t, inv.GPUs, 9)
		var got []string
		for _, u := range inv.Unusable {
			require.Equal(t, gpu.NoRenderNode, u.Reason)
			require.Equal(t, single, u.PCI)
			text, why, _ := strings.Cut(u.Detail, ": its driver made no device for it; ")
			require.Equal(t, "see: sudo dmesg | grep amdgpu", why)
			got = append(got, text)
		}
		require.Equal(t, want, got, mode)
	}

	r := hosttest.Host(t, "mi300x-cpx")
	hosttest.Put(t, r, "/sys/devices/pci0000:19/0000:19:01.1/"+single+"/current_compute_partition", "DPX\n")
	refuse(t, r, 9)
	require.Empty(t, discover(t, r).Unusable, "a container sees only its own")
}

// A kernel with numbers for 64 cards gives none to the last partition if the server has a display.
func TestPartitionWithoutANumberIsNamedWithTheCause(t *testing.T) {
	r := hosttest.Host(t, "mi300x-cpx")
	hosttest.Put(t, r, "/sys/devices/pci0000:19/0000:19:01.1/"+single+"/current_compute_partition", "DPX\n")
	for n := range 64 {
		if card := fmt.Sprintf("/sys/class/drm/card%d", n); !r.Exists(card) {
			hosttest.Put(t, r, card+"/dev", fmt.Sprintf("226:%d\n", n))
		}
	}
	require.Contains(t, discover(t, r).Unusable[0].Detail, "this kernel has numbers for 64 cards")
}
