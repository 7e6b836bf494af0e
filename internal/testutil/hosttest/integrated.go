package hosttest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// IntegratedPCI is the address of the GPU of AddIntegrated.
const IntegratedPCI = "0000:12:00.0"

// AddIntegrated adds the GPU of a Ryzen 7000 processor to a machine with up to eight cards:
// gfx1036 with 512 MiB, renderD137 and card9, and a node of KFD if the machine has KFD.
func AddIntegrated(t testing.TB, r host.Root) {
	t.Helper()
	const above = "/sys/devices/pci0000:00/0000:00:08.1"
	const dev = above + "/" + IntegratedPCI
	Put(t, r, above+"/uevent", "DRIVER=pcieport\nPCI_CLASS=60400\nPCI_ID=1022:14DD\nPCI_SLOT_NAME=0000:00:08.1\n")
	files := map[string]string{
		"uevent": "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=1002:164E\nPCI_SUBSYS_ID=1462:7D75\nPCI_SLOT_NAME=" +
			IntegratedPCI,
		"vendor": "0x1002", "device": "0x164e", "class": "0x030000", "revision": "0xc6",
		"power/runtime_status": "active", "gpu_busy_percent": "0",
		"mem_info_vram_total": "536870912", "mem_info_vram_used": "50331648",
		"mem_info_gtt_total": "16547119104", "mem_info_gtt_used": "20971520",
		"drm/card9/dev": "226:9", "drm/renderD137/dev": "226:137",
		"hwmon/hwmon9/name": "amdgpu", "hwmon/hwmon9/temp1_label": "edge", "hwmon/hwmon9/temp1_input": "45000",
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		Put(t, r, path.Join(dev, name), files[name]+"\n")
	}
	const up = "devices/pci0000:00/0000:00:08.1/" + IntegratedPCI
	Link(t, r, dev+"/driver", "../../../../bus/pci/drivers/amdgpu")
	Link(t, r, "/sys/bus/pci/drivers/amdgpu/"+IntegratedPCI, "../../../../"+up)
	Link(t, r, "/sys/bus/pci/devices/"+IntegratedPCI, "../../../"+up)
	for name, number := range map[string]string{"card9": "226:9", "renderD137": "226:137"} {
		Link(t, r, "/sys/class/drm/"+name, "../../"+up+"/drm/"+name)
		Link(t, r, dev+"/drm/"+name+"/device", "../../../"+IntegratedPCI)
		Put(t, r, "/dev/dri/"+name, number+" 0660 0 44\n")
	}
	nodes, err := r.ReadDir(topology)
	if err != nil {
		return
	}
	Put(t, r, fmt.Sprintf("%s/%d/properties", topology, len(nodes)), "cpu_cores_count 0\nsimd_count 4\n"+
		"gfx_target_version 100306\nvendor_id 4098\ndevice_id 5710\nlocation_id 4608\ndomain 0\n"+
		"drm_render_minor 137\n")
}
