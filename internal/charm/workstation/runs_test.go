package workstation

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// minors returns the numbers of nodes.
func minors(devices []rungroup.Device) (all []uint32) {
	for _, d := range devices {
		all = append(all, d.Minor)
	}
	return all
}

func TestNodesOfUnusableGPUsAreRefusedToRuns(t *testing.T) {
	h := machineOf(t, "mi210x4")
	m, err := runMachine(h.Root)
	require.NoError(t, err)
	require.Len(t, m.GPUs, 4)
	before := minors(m.Others)

	const gpu2 = "/sys/bus/pci/devices/0000:83:00.0"
	require.NoError(t, os.Remove(h.Path(gpu2+"/driver")))
	hosttest.Put(t, h.Root, gpu2+"/uevent", "DRIVER=radeon\nPCI_CLASS=30000\nPCI_ID=1002:6810\nPCI_SLOT_NAME=0000:83:00.0\n")
	require.NoError(t, os.Remove(h.Path("/dev/dri/renderD131")))
	m, err = runMachine(h.Root)
	require.NoError(t, err)
	require.Len(t, m.GPUs, 2)
	require.Subset(t, minors(m.Others), []uint32{130, 131}, "another driver, and a node that is missing")
	require.NotContains(t, minors(m.Others), uint32(128))
	require.Less(t, len(before), len(m.Others))

	m, err = runMachine(machineOf(t, "mi300x-cpx").Root)
	require.NoError(t, err)
	for _, g := range m.GPUs {
		for _, n := range minors(g.Devices) {
			require.NotContains(t, minors(m.Others), n, "a node of %s", g.Address())
		}
	}
}

func TestMachineThatShowsAGPUIsNotWithoutOne(t *testing.T) {
	for _, host := range []string{"mi210x4", "nvidia-only"} { // the second sees the host's in sysfs
		require.NoError(t, CheckGPU(machineOf(t, host).Root), host)
	}
	require.EqualError(t, CheckGPU(machineOf(t, "no-gpu").Root), "cannot lease GPUs: this machine has no AMD GPU; see gpukit gpu list")
}
