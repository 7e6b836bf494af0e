package gpu_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// The Radeon of the fixture host "amd".
const (
	radeon = "/sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0"
	render = "/dev/dri/renderD128"
)

// TestReasonsOfUnusableGPUs changes one thing of a host with a GPU that counts.
func TestReasonsOfUnusableGPUs(t *testing.T) {
	put := func(path, text string) func(*testing.T, host.Root) {
		return func(t *testing.T, r host.Root) { hosttest.Put(t, r, path, text) }
	}
	remove := func(paths ...string) func(*testing.T, host.Root) {
		return func(t *testing.T, r host.Root) {
			for _, p := range paths {
				require.NoError(t, os.RemoveAll(r.Path(p)))
			}
		}
	}
	uevent := func(driver string) func(*testing.T, host.Root) {
		return func(t *testing.T, r host.Root) {
			remove(radeon+"/driver")(t, r)
			put(radeon+"/uevent", driver+"PCI_CLASS=30000\nPCI_ID=1002:744C\nPCI_SLOT_NAME=0000:03:00.0\n")(t, r)
		}
	}
	tests := map[string]struct {
		change func(*testing.T, host.Root)
		reason gpu.Reason
		detail string
	}{
		"no node":            {remove(render), gpu.NotPassedThrough, "/dev/dri/renderD128 is not there: the host has it and did not pass it through to this machine"},
		"no /dev/dri":        {remove("/dev/dri"), gpu.NotPassedThrough, "/dev/dri/renderD128 is not there: the host has it and did not pass it through to this machine"},
		"another number":     {put(render, "226:130 0660 0 44"), gpu.WrongNumber, "/dev/dri/renderD128 is 226:130, but sysfs shows 226:128"},
		"not a device":       {put(render, "what is this"), gpu.NotADevice, "/dev/dri/renderD128 is not a character device"},
		"nobody's":           {put(render, "226:128 0660 65534 65534"), gpu.Unreadable, "/dev/dri/renderD128 has mode 0660 and belongs to an owner outside this container (65534:65534)"},
		"nobody's, o+r":      {put(render, "226:128 0664 65534 65534"), gpu.Unreadable, "/dev/dri/renderD128 has mode 0664 and belongs to an owner outside this container (65534:65534)"},
		"no number in sysfs": {remove(radeon + "/drm/renderD128/dev"), gpu.SysfsUnreadable, "sysfs gives no device number for renderD128"},
		"no number but text": {put(radeon+"/drm/renderD128/dev", "many"), gpu.SysfsUnreadable, `cannot read device number "many": want major:minor`},
		"no driver":          {uevent(""), gpu.NoDriver, "no driver is bound to it"},
		"vfio-pci":           {uevent("DRIVER=vfio-pci\n"), gpu.VFIO, "bound to vfio-pci: set aside for a virtual machine"},
		"radeon":             {uevent("DRIVER=radeon\n"), gpu.OtherDriver, "bound to radeon: its driver cannot compute"},
		"no render node":     {remove("/sys/class/drm/renderD128"), gpu.NoRenderNode, "driver amdgpu made no render node"},
		"no DRM at all":      {remove("/sys/class/drm"), gpu.NoRenderNode, "driver amdgpu made no render node"},
		"no class": {func(t *testing.T, r host.Root) {
			remove(radeon+"/uevent", radeon+"/class")(t, r)
		}, gpu.SysfsUnreadable, "sysfs gives no PCI class for it"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, "amd")
			require.Len(t, discover(t, r).GPUs, 1)
			tc.change(t, r)
			inv := discover(t, r)
			require.Empty(t, inv.GPUs)
			require.Equal(t, []gpu.GPU{{
				Slot: gpu.Slot{PCI: "0000:03:00.0", Vendor: gpu.AMD, Model: "AMD Radeon RX 7900 XT"}, Reason: tc.reason,
				Detail: tc.detail, DeviceID: 0x744c, Revision: 0xcc,
			}}, inv.UnusableOf(gpu.AMD))
			require.NotEqual(t, string(tc.reason), tc.reason.Text(), "a reason needs a text")
		})
	}
}

// Windows gives WSL2 a device of its own on a PCI bus.
func TestGPUOfWSL2IsNamed(t *testing.T) {
	r := hosttest.Host(t, "no-gpu")
	hosttest.Put(t, r, "/sys/bus/pci/devices/5d2b:00:00.0/uevent",
		"DRIVER=dxgkrnl\nPCI_CLASS=30200\nPCI_ID=1414:008E\nPCI_SLOT_NAME=5d2b:00:00.0\n")
	inv := discover(t, r)
	require.Len(t, inv.Unusable, 1)
	require.Equal(t, gpu.WSL, inv.Unusable[0].Reason)
	require.Contains(t, inv.Unusable[0].Detail, "/dev/dxg")
}

// TestNodesThatRootMayOpen: an unmapped owner matters only in a container, and only if the
// permission bits do not let root in.
func TestNodesThatRootMayOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		node      string
		container bool
	}{
		"mapped owner, no bits":        {"226:128 0600 110 44", true},
		"nobody's, for all":            {"226:128 0666 65534 65534", true},
		"root's, unmapped group":       {"226:128 0660 0 65534", true},
		"unmapped owner, root's group": {"226:128 0660 65534 0", true},
		"nobody's, bare machine":       {"226:128 0660 65534 65534", false},
		"any number":                   {"", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, "amd")
			hosttest.Put(t, r, render, tc.node)
			hosttest.Put(t, r, "/dev/dri/card0", tc.node)
			if !tc.container {
				require.NoError(t, r.Remove("/run/systemd/container"))
			}
			inv := discover(t, r)
			require.Len(t, inv.GPUs, 1)
			require.Equal(t, "226:128", inv.GPUs[0].Render.Number())
		})
	}
}

// TestCardNodeIsOptional: computing needs the render node alone, and a wrong
// card node must not reach a container.
func TestCardNodeIsOptional(t *testing.T) {
	for name, node := range map[string]string{"missing": "", "wrong": "226:7"} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, "amd")
			require.NoError(t, r.Remove("/dev/dri/card0"))
			if node != "" {
				hosttest.Put(t, r, "/dev/dri/card0", node)
			}
			inv := discover(t, r)
			require.Len(t, inv.GPUs, 1)
			require.Nil(t, inv.GPUs[0].Card)
			require.Equal(t, "/sys/class/drm/card0", inv.GPUs[0].DRM)
		})
	}
}
