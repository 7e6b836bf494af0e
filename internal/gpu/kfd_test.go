package gpu_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestStatesOfKFD(t *testing.T) {
	const devices = "Character devices:\n226 drm\n235 kfd\n\nBlock devices:\n"
	for name, tc := range map[string]struct {
		node, devices string // "" for a file that is not there
		state         gpu.KFDState
		want          uint32
		text          string
	}{
		"present":                {"235:0 0660 0 44", devices, gpu.KFDPresent, 235, "/dev/kfd is there (235:0)"},
		"absent":                 {"", devices, gpu.KFDAbsent, 0, "no /dev/kfd"},
		"no /proc/devices":       {"235:0 0660 0 0", "", gpu.KFDPresent, 0, "/dev/kfd is there (235:0)"},
		"any number":             {" ", devices, gpu.KFDPresent, 235, "/dev/kfd is there (235:0)"},
		"major of another boot":  {"238:0 0660 0 0", devices, gpu.KFDWrongMajor, 235, "/dev/kfd is 238:0, but the kernel's kfd driver has major 235"},
		"driver not loaded":      {"235:0 0660 0 0", "Character devices:\n226 drm\n", gpu.KFDWrongMajor, 0, "/dev/kfd is 235:0, but the kernel has no kfd driver"},
		"only a block device":    {"235:0 0660 0 0", "Character devices:\n\nBlock devices:\n235 kfd\n", gpu.KFDWrongMajor, 0, "/dev/kfd is 235:0, but the kernel has no kfd driver"},
		"nobody's":               {"235:0 0660 65534 65534", devices, gpu.KFDUnreadable, 235, "/dev/kfd has mode 0660 and belongs to an owner outside this container (65534:65534)"},
		"nobody's, open for all": {"235:0 0666 65534 65534", devices, gpu.KFDPresent, 235, "/dev/kfd is there (235:0)"},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, "amd")
			require.NoError(t, r.Remove("/dev/kfd"))
			require.NoError(t, r.Remove("/proc/devices"))
			if tc.node != "" {
				hosttest.Put(t, r, "/dev/kfd", tc.node)
			}
			if tc.devices != "" {
				hosttest.Put(t, r, "/proc/devices", tc.devices)
			}
			inv := discover(t, r)
			require.Len(t, inv.GPUs, 1, "KFD decides nothing about the GPU itself")
			require.Equal(t, tc.state, inv.KFD.State)
			require.Equal(t, tc.want, inv.KFD.WantMajor)
			require.Equal(t, tc.text, inv.KFD.Text())
			require.Equal(t, tc.state == gpu.KFDPresent, inv.KFD.Usable())
		})
	}
}

func TestKFDThatIsADirectory(t *testing.T) {
	r := hosttest.Host(t, "amd-no-kfd")
	require.NoError(t, os.Mkdir(r.Path("/dev/kfd"), 0o755)) // docker -v makes these
	k := discover(t, r).KFD
	require.Equal(t, gpu.KFDUnreadable, k.State)
	require.Equal(t, "cannot use /dev/kfd: not a character device", k.Text())
}

// GCN 1 under amdgpu (R9 280, R7 240): it has a render node, and KFD no node for it.
func TestCardUnknownToKFDIsUnusable(t *testing.T) {
	r := hosttest.Host(t, "amd")
	plainGPU(t, r, "0000:83:00.0", 5, 133)
	hosttest.Put(t, r, nodes+"/0/properties", "cpu_cores_count 16\n")
	inv := discover(t, r)
	require.Len(t, inv.GPUs, 1)
	require.Len(t, inv.Unusable, 1)
	require.Equal(t, gpu.NoCompute, inv.Unusable[0].Reason)
	require.Equal(t, "0000:83:00.0", inv.Unusable[0].PCI)

	// In a container KFD keeps the nodes of GPUs back that the container may not open.
	hosttest.Put(t, r, nodes+"/7/name", "refused")
	require.NoError(t, os.Mkdir(r.Path(nodes+"/7/properties"), 0o755))
	inv = discover(t, r)
	require.Len(t, inv.GPUs, 2)
	require.False(t, inv.GPUs[0].NotInKFD)
	require.True(t, inv.GPUs[1].NotInKFD, "refused or missing")
	require.Empty(t, inv.Obstacle(inv.GPUs[0]))
	require.Contains(t, inv.Obstacle(inv.GPUs[1]), "the kernel's KFD does not list it")

	// Without the right to any node nothing is known.
	require.NoError(t, os.RemoveAll(r.Path(nodes+"/1")))
	inv = discover(t, r)
	require.Len(t, inv.GPUs, 2)
	require.Empty(t, inv.Obstacle(inv.GPUs[0])+inv.Obstacle(inv.GPUs[1]))

	// A GPU of another unit has the refused node.
	require.NoError(t, os.Remove(r.Path("/dev/dri/renderD133")))
	inv = discover(t, r)
	require.Len(t, inv.GPUs, 1)
	require.True(t, inv.GPUs[0].NotInKFD)

	// KFD empties the list for a moment when another GPU comes (kfd_topology_update_sysfs).
	require.NoError(t, os.RemoveAll(r.Path(nodes)))
	require.NoError(t, os.Mkdir(r.Path(nodes), 0o755))
	inv = discover(t, r)
	require.Len(t, inv.GPUs, 1)
	require.False(t, inv.GPUs[0].NotInKFD)
}
