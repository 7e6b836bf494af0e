package hosttest

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// HostsDir returns the folder of the fixture hosts in the source tree, with one folder for
// each machine: sysfs with its links, stand-ins for the nodes below /dev (see
// host.Root.Node), and the few files of /proc, /etc and /run that describe the machine.
// hosts/README.md describes each machine.
//
// It searches above the working folder, a test's package, because a build with -trimpath
// does not contain this file's path.
func HostsDir() string {
	dir, err := os.Getwd()
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		hosts := filepath.Join(dir, "internal/testutil/hosttest/hosts")
		if _, err := os.Stat(hosts); err == nil {
			return hosts
		}
	}
	panic("cannot find the fixture hosts: the working folder is outside the source tree")
}

// CapturesEnv names the variable with the folder of captures: files of real machines, which are
// not part of this repository.
const CapturesEnv = "CAPTURES_DIR"

// Captures returns a file or folder of the captures. Without it the test is skipped.
func Captures(t testing.TB, sub string) string {
	t.Helper()
	dir := os.Getenv(CapturesEnv)
	if dir == "" {
		t.Skipf("%s names no folder with captures of real machines", CapturesEnv)
	}
	path := filepath.Join(dir, sub)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s has no %s", CapturesEnv, sub)
	}
	return path
}

// HostNames lists the fixture hosts, sorted.
func HostNames() []string {
	entries, err := os.ReadDir(HostsDir())
	if err != nil {
		panic("cannot list fixture hosts: " + err.Error()) // no test could run
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// Host returns a copy of a fixture host that the test may change.
func Host(t testing.TB, name string) host.Root {
	t.Helper()
	require.Contains(t, HostNames(), name)
	return Root(t, filepath.Join(HostsDir(), name))
}

// Link creates a symbolic link below the root, with its directories.
func Link(t testing.TB, r host.Root, path, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(r.Path(path)), 0o755))
	require.NoError(t, os.Symlink(to, r.Path(path)))
}

// ManyGPUs returns a machine with n AMD Instinct MI300X and the files that discovery and
// the exporter read: card1 and up, renderD128 and up, 32 in a PCI domain, one bridge above
// each, a KFD topology node each and /dev/kfd.
func ManyGPUs(t testing.TB, n int) host.Root {
	t.Helper()
	r := host.Root(t.TempDir())
	Put(t, r, "/etc/hostname", "gpu-many\n")
	Put(t, r, "/etc/os-release", "NAME=\"Ubuntu\"\nID=ubuntu\nVERSION_ID=\"24.04\"\nVERSION_CODENAME=noble\n")
	Put(t, r, "/proc/sys/kernel/osrelease", "6.14.0-32-generic\n")
	Put(t, r, "/proc/devices", "Character devices:\n  1 mem\n226 drm\n235 kfd\n\nBlock devices:\n  8 sd\n")
	Put(t, r, "/dev/kfd", "235:0 0660 0 44\n")
	Put(t, r, topology+"/0/properties", "cpu_cores_count 96\nsimd_count 0\ndrm_render_minor 0\n")
	Link(t, r, "/sys/module/amdgpu/drivers/pci:amdgpu", "../../../bus/pci/drivers/amdgpu")
	for i := range n {
		manyGPU(t, r, i)
	}
	return r
}

const topology = "/sys/class/kfd/kfd/topology/nodes"

func manyGPU(t testing.TB, r host.Root, i int) {
	domain, bus, card, render := i/32, 4+i%32*7, 1+i, 128+i
	addr, id := fmt.Sprintf("%04x:%02x:00.0", domain, bus), uint64(0x9c31f07ad2480000)+uint64(i)
	bridge := fmt.Sprintf("%04x:00:%02x.0", domain, 1+i%31)
	above := fmt.Sprintf("/sys/devices/pci%04x:00/%s", domain, bridge)
	dev := above + "/" + addr
	Put(t, r, above+"/uevent", "DRIVER=pcieport\nPCI_CLASS=60400\nPCI_ID=1022:14AB\nPCI_SLOT_NAME="+bridge+"\n")
	files := map[string]string{
		"uevent": "DRIVER=amdgpu\nPCI_CLASS=120000\nPCI_ID=1002:74A1\nPCI_SUBSYS_ID=1002:74A1\nPCI_SLOT_NAME=" + addr,
		"vendor": "0x1002", "device": "0x74a1", "class": "0x120000", "revision": "0x00",
		"product_name": "AMD Instinct MI300X OAM", "unique_id": fmt.Sprintf("%016x", id),
		"vbios_version": "113-M3000100-103", "power/runtime_status": "active",
		"gpu_busy_percent": fmt.Sprint(i % 101), "mem_busy_percent": fmt.Sprint(i % 53),
		"mem_info_vram_total": "206141652992", "mem_info_vram_used": fmt.Sprint(297181184 + i<<30),
		"mem_info_gtt_total": "1081830277120", "mem_info_gtt_used": "26214400",
		"current_link_speed": "32.0 GT/s PCIe", "current_link_width": "16",
		"drm/card" + fmt.Sprint(card) + "/dev":      fmt.Sprintf("226:%d", card),
		"drm/renderD" + fmt.Sprint(render) + "/dev": fmt.Sprintf("226:%d", render),
	}
	for k, v := range map[string]string{
		"name": "amdgpu", "temp2_label": "junction", "temp2_input": fmt.Sprint(45000 + i*500), "temp2_crit": "100000",
		"temp3_label": "mem", "temp3_input": fmt.Sprint(38000 + i*250), "temp3_crit": "105000",
		"power1_label": "PPT", "power1_input": fmt.Sprint((140 + i) * 1000000), "power1_cap": "750000000",
		"freq1_label": "sclk", "freq1_input": "2100000000", "freq2_label": "mclk", "freq2_input": "1300000000",
	} {
		files[fmt.Sprintf("hwmon/hwmon%d/%s", i+2, k)] = v
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		Put(t, r, path.Join(dev, name), files[name]+"\n")
	}
	up := strings.TrimPrefix(dev, "/sys/")
	Link(t, r, dev+"/driver", "../../../../bus/pci/drivers/amdgpu")
	Link(t, r, "/sys/bus/pci/drivers/amdgpu/"+addr, "../../../../"+up)
	Link(t, r, "/sys/bus/pci/devices/"+addr, "../../../"+up)
	if i%32 != 31 { // a bus has 31 free slots
		Link(t, r, "/sys/bus/pci/devices/"+bridge, "../../../"+path.Dir(up))
	}
	for name, minor := range map[string]int{fmt.Sprintf("card%d", card): card,
		fmt.Sprintf("renderD%d", render): render} {
		Link(t, r, "/sys/class/drm/"+name, "../../"+up+"/drm/"+name)
		Link(t, r, dev+"/drm/"+name+"/device", "../../../"+addr)
		Put(t, r, "/dev/dri/"+name, fmt.Sprintf("226:%d 0660 0 44\n", minor))
	}
	Put(t, r, fmt.Sprintf("%s/%d/properties", topology, i+1), fmt.Sprintf(`cpu_cores_count 0
simd_count 1216
gfx_target_version 90402
vendor_id 4098
device_id 29857
location_id %d
domain %d
drm_render_minor %d
unique_id %d
num_xcc 8
`, bus<<8, domain, render, id))
}
