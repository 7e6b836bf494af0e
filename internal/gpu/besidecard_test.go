package gpu_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func addressesOf(gpus []gpu.GPU) (list []string) {
	for _, g := range gpus {
		list = append(list, g.PCI)
	}
	return list
}

// Programs that are built for the card fail on the GPU of a Ryzen desktop's processor.
func TestIntegratedGPUBesideACardIsForTasksOnlyByName(t *testing.T) {
	const card = "0000:03:00.0"
	r := hosttest.Host(t, "amd")
	hosttest.AddIntegrated(t, r)
	gpus := discover(t, r).GPUsOf(gpu.AMD)
	require.Equal(t, []string{card, hosttest.IntegratedPCI}, addressesOf(gpus), "metrics show both")
	require.Equal(t, []string{"gfx1100", "gfx1036"}, []string{gpus[0].GFX, gpus[1].GFX})
	for spec, want := range map[string][]string{
		"all": {card}, "": {card}, "0": {card}, "1": {hosttest.IntegratedPCI}, "0,1": {card, hosttest.IntegratedPCI},
		hosttest.IntegratedPCI: {hosttest.IntegratedPCI},
	} {
		chosen, problems := gpu.Select(gpus, spec)
		require.Empty(t, problems)
		require.Equal(t, want, addressesOf(chosen), spec)
	}
}

// function puts a GPU of AMD without a DRM node on the bus.
func function(t *testing.T, r host.Root, device, driver string) {
	t.Helper()
	text := "PCI_CLASS=38000\nPCI_ID=1002:" + device + "\nPCI_SLOT_NAME=0000:03:00.0\n"
	if driver != "" {
		text = "DRIVER=" + driver + "\n" + text
	}
	hosttest.Put(t, r, "/sys/bus/pci/devices/0000:03:00.0/uevent", text)
}

// inKFD sets the architecture of the GPU with a render node, as KFD reports it. 0 is none.
func inKFD(t *testing.T, r host.Root, render, target int) {
	t.Helper()
	text := "cpu_cores_count 16\n"
	if target > 0 {
		text = fmt.Sprintf("gfx_target_version %d\ndrm_render_minor %d\n", target, render)
	}
	hosttest.Put(t, r, nodes+"/1/properties", text)
}

// Tags that changed to the integrated GPU's would send its tasks where they fail.
func TestIntegratedGPUStaysLeftOutAsLongAsTheMachineHasACard(t *testing.T) {
	device := func(id string) func(*testing.T, host.Root) {
		return func(t *testing.T, r host.Root) {
			plainGPU(t, r, "0000:03:00.0", 1, 128)
			hosttest.Put(t, r, "/sys/devices/pci0000:00/0000:03:00.0/device", id+"\n")
		}
	}
	for name, c := range map[string]struct {
		add  func(t *testing.T, r host.Root)
		want bool
	}{
		"alone":                         {func(*testing.T, host.Root) {}, false},
		"a card without a driver":       {func(t *testing.T, r host.Root) { function(t, r, "744C", "") }, true},
		"a card newer than the table":   {func(t *testing.T, r host.Root) { function(t, r, "7FFF", "") }, true},
		"a card that failed to start":   {func(t *testing.T, r host.Root) { function(t, r, "744C", "amdgpu") }, true},
		"a card of a virtual machine":   {func(t *testing.T, r host.Root) { function(t, r, "744C", "vfio-pci") }, false},
		"a card of the driver radeon":   {func(t *testing.T, r host.Root) { function(t, r, "67B0", "radeon") }, false},
		"an integrated GPU that failed": {func(t *testing.T, r host.Root) { function(t, r, "13C0", "amdgpu") }, false},
		"a card":                        {func(t *testing.T, r host.Root) { device("0x744c")(t, r); inKFD(t, r, 128, 110000) }, true},
		"a card that KFD refuses":       {func(t *testing.T, r host.Root) { device("0x744c")(t, r); inKFD(t, r, 128, 0) }, true},
		"a card of GCN 1":               {func(t *testing.T, r host.Root) { device("0x6610")(t, r); inKFD(t, r, 128, 0) }, false},
		"a refused card without ROCm":   {func(t *testing.T, r host.Root) { device("0x67df")(t, r); inKFD(t, r, 128, 0) }, false},
		"an MI300A":                     {func(t *testing.T, r host.Root) { device("0x74a0")(t, r); inKFD(t, r, 128, 90402) }, true},
		"another APU":                   {func(t *testing.T, r host.Root) { device("0x7ffe")(t, r); inKFD(t, r, 128, 110501) }, false},
		"a card of another container": {func(t *testing.T, r host.Root) {
			device("0x744c")(t, r)
			require.NoError(t, os.RemoveAll(r.Path("/dev/dri/renderD128")))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Root(t)
			hosttest.Put(t, r, nodes+"/0/properties", "cpu_cores_count 16\n")
			hosttest.Put(t, r, nodes+"/1/properties", "cpu_cores_count 16\n")
			hosttest.AddIntegrated(t, r)
			c.add(t, r)
			integrated := discover(t, r).Find(hosttest.IntegratedPCI)
			require.NotNil(t, integrated)
			require.Equal(t, "gfx1036", integrated.GFX)
			require.Equal(t, c.want, integrated.BesideCard)
		})
	}
}

// Old chips are listed, and no ROCm of the table computes on them.
func TestChipsWithoutROCmAreNamed(t *testing.T) {
	for target, want := range map[int]string{70001: "gfx701", 80003: "gfx803", 90000: "", 110000: ""} {
		r := hosttest.Root(t)
		plainGPU(t, r, "0000:03:00.0", 1, 128)
		hosttest.Put(t, r, "/sys/devices/pci0000:00/0000:03:00.0/device", "0x7ffd\n")
		inKFD(t, r, 128, target)
		got := discover(t, r).GPUs[0].Unsupported
		if want == "" {
			require.Empty(t, got)
			continue
		}
		require.Equal(t, "no ROCm of the table supports "+want, got)
	}
}
