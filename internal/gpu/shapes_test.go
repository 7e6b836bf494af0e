package gpu_test

import (
	"fmt"
	"os"
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// TestSixtyFourGPUs: cards 10 and above, two PCI domains, order by address.
func TestSixtyFourGPUs(t *testing.T) {
	inv := discover(t, hosttest.ManyGPUs(t, 64))
	require.Empty(t, inv.Unusable)
	require.Len(t, inv.GPUsOf(gpu.AMD), 64)
	for i, g := range inv.GPUsOf(gpu.AMD) {
		require.Equal(t, fmt.Sprintf("%04x:%02x:00.0", i/32, 4+i%32*7), g.PCI)
		require.Equal(t, fmt.Sprintf("/dev/dri/renderD%d", 128+i), g.Render.Path)
		require.Equal(t, fmt.Sprintf("/dev/dri/card%d", 1+i), g.Card.Path)
		require.Equal(t, "gfx942", g.GFX)
		require.Equal(t, i+1, g.KFDNode)
	}
}

// TestOrderIsByAddressNotByName: the kernel numbers cards as drivers come up.
func TestOrderIsByAddressNotByName(t *testing.T) {
	r := host.Root(t.TempDir())
	for i, addr := range []string{"10000:01:00.0", "0000:c3:00.0", "0000:0a:00.0", "0001:02:00.0", "0000:0a:00.1"} {
		plainGPU(t, r, addr, 9+i, 136+i)
	}
	var got []string
	for _, g := range discover(t, r).GPUs {
		got = append(got, g.PCI+" "+path.Base(g.Render.Path))
	}
	require.Equal(t, []string{"0000:0a:00.0 renderD138", "0000:0a:00.1 renderD140", "0000:c3:00.0 renderD137",
		"0001:02:00.0 renderD139", "10000:01:00.0 renderD136"}, got)
}

// plainGPU makes a GPU of single files: no uevent, a driver link.
func plainGPU(t *testing.T, r host.Root, addr string, card, render int) {
	dev := "/sys/devices/pci0000:00/" + addr
	for name, text := range map[string]string{"vendor": "0x1002", "device": "0x744c", "class": "0x030000", "revision": "0xc8"} {
		hosttest.Put(t, r, path.Join(dev, name), text+"\n")
	}
	hosttest.Link(t, r, dev+"/driver", "../../../bus/pci/drivers/amdgpu")
	for name, minor := range map[string]int{fmt.Sprintf("card%d", card): card, fmt.Sprintf("renderD%d", render): render} {
		hosttest.Put(t, r, path.Join(dev, "drm", name, "dev"), fmt.Sprintf("226:%d\n", minor))
		hosttest.Link(t, r, path.Join("/sys/class/drm", name), path.Join("../../devices/pci0000:00", addr, "drm", name))
		hosttest.Put(t, r, path.Join("/dev/dri", name), fmt.Sprintf("226:%d", minor))
	}
}

// TestClassEntriesThatAreDirectories: captures have `device` as its own directory in each
// entry, and only `uevent` reports that they are one GPU.
func TestClassEntriesThatAreDirectories(t *testing.T) {
	r := host.Root(t.TempDir())
	for name, minor := range map[string]string{"card12": "226:12", "renderD140": "226:140"} {
		entry := path.Join("/sys/class/drm", name)
		hosttest.Put(t, r, entry+"/dev", minor+"\n")
		hosttest.Put(t, r, entry+"/device/uevent", "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2330\nPCI_SLOT_NAME=0000:1b:00.0\n")
		hosttest.Put(t, r, path.Join("/dev/dri", name), minor)
	}
	inv := discover(t, r)
	require.Empty(t, inv.Unusable)
	require.Len(t, inv.GPUs, 1)
	g := inv.GPUs[0]
	require.Equal(t, "0000:1b:00.0 nvidia 030200 /dev/dri/card12 /dev/dri/renderD140 /sys/class/drm/card12",
		fmt.Sprintf("%s %s %06x %s %s %s", g.PCI, g.Driver, g.Class, g.Card.Path, g.Render.Path, g.DRM))
}

// TestMachineWithoutGPUs: no sysfs at all, and entries that are no GPU's.
func TestMachineWithoutGPUs(t *testing.T) {
	r := host.Root(t.TempDir())
	require.Equal(t, gpu.Inventory{KFD: gpu.KFD{State: gpu.KFDAbsent}}, discover(t, r))
	for _, name := range []string{"card0-DP-1", "version", "ttm", "card", "renderD", "cardX", "card-1", "renderD99999999999"} {
		hosttest.Put(t, r, path.Join("/sys/class/drm", name, "device/uevent"), "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=1002:744C\nPCI_SLOT_NAME=0000:03:00.0\n")
	}
	require.Empty(t, discover(t, r).GPUs)
	require.Empty(t, discover(t, r).Unusable)

	require.NoError(t, os.RemoveAll(r.Path("/sys/class/drm")))
	hosttest.Put(t, r, "/sys/class/drm", "a file")
	_, err := gpu.Discover(r)
	require.ErrorContains(t, err, "cannot list GPUs: ")
}
