package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
)

// blocks are those with error counters on an MI300X.
var blocks = []string{"umc", "sdma", "gfx", "mmhub", "athub", "pcie_bif", "hdp", "xgmi_wafl", "df", "smn", "sem",
	"mp0", "mp1", "fuse", "mca", "vcn", "jpeg", "ih", "mpio"}

// synthesize writes a machine with n MI300X: what amdgpu of Linux 6.12 shows of
// them, with values of no machine.
func synthesize(root string, n int) error {
	w := writer{root: root}
	w.file("etc/hostname", "bench\n")
	w.file("proc/sys/kernel/osrelease", "6.12.0-bench\n")
	w.file("proc/devices", "Character devices:\n226 drm\n235 kfd\n")
	w.file("dev/kfd", "235:0 0660 0 44\n")
	w.file("sys/class/kfd/kfd/topology/generation_id", "1\n")
	w.file("sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 96\nsimd_count 0\ndrm_render_minor 0\n")
	for i := range n {
		w.gpu(i)
	}
	return w.err
}

type writer struct {
	root string
	err  error
}

func (w *writer) file(name, content string) {
	p := filepath.Join(w.root, name)
	if w.err == nil {
		w.err = os.MkdirAll(filepath.Dir(p), 0o755)
	}
	if w.err == nil {
		w.err = os.WriteFile(p, []byte(content), 0o644)
	}
}

func (w *writer) link(name, to string) {
	p := filepath.Join(w.root, name)
	if w.err == nil {
		w.err = os.MkdirAll(filepath.Dir(p), 0o755)
	}
	if w.err == nil {
		w.err = os.Symlink(to, p)
	}
}

func (w *writer) gpu(i int) {
	addr := fmt.Sprintf("%04x:%02x:00.0", i/32, 5+i%32*7)
	up := fmt.Sprintf("devices/pci%04x:00/%s", i/32, addr)
	dev := "sys/" + up
	files := map[string]string{
		"uevent": "DRIVER=amdgpu\nPCI_CLASS=120000\nPCI_ID=1002:74A1\nPCI_SLOT_NAME=" + addr + "\n",
		"vendor": "0x1002", "device": "0x74a1", "class": "0x120000", "revision": "0x00",
		"product_name": "AMD Instinct MI300X OAM", "unique_id": fmt.Sprintf("%016x", 0x7c1155aa20000000+i),
		"serial_number": fmt.Sprintf("8810%06d", i), "vbios_version": "113-BENCH-001", "power/runtime_status": "active",
		"gpu_busy_percent": fmt.Sprint(40 + i%50), "mem_busy_percent": fmt.Sprint(20 + i%30),
		"mem_info_vram_total": "206141652992", "mem_info_vram_used": fmt.Sprint(81141652992 + i<<24),
		"mem_info_vis_vram_total": "206141652992", "mem_info_vis_vram_used": fmt.Sprint(81141652992 + i<<24),
		"mem_info_gtt_total": "1081830277120", "mem_info_gtt_used": "26927104", "pcie_replay_count": "3",
		"current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe", "current_link_width": "16", "max_link_width": "16",
		"current_compute_partition": "SPX", "current_memory_partition": "NPS1",
		"pp_dpm_sclk": "0: 132Mhz\n1: 2100Mhz *\n", "pp_dpm_mclk": "0: 900Mhz\n1: 1300Mhz *\n",
		"ras/gpu_vram_bad_pages":                "",
		"ras/event_state":                       "current seqno: 0\nFatal Error: count:0, last_seqno:0\n",
		fmt.Sprintf("drm/card%d/dev", i):        fmt.Sprintf("226:%d", i),
		fmt.Sprintf("drm/renderD%d/dev", 128+i): fmt.Sprintf("226:%d", 128+i),
	}
	for _, b := range blocks {
		files["ras/"+b+"_err_count"] = "ue: 0\nce: 1\n"
	}
	files["ras/umc_err_count"] = "ue: 0\nce: 2\nde: 0\n"
	for k, v := range map[string]string{
		"name": "amdgpu", "temp2_label": "junction", "temp2_input": fmt.Sprint(51000 + i*250), "temp2_crit": "100000", "temp2_emergency": "115000",
		"temp3_label": "mem", "temp3_input": fmt.Sprint(46000 + i*250), "temp3_crit": "105000", "temp3_emergency": "120000",
		"power1_label": "PPT", "power1_input": fmt.Sprint((410 + i) * 1_000_000), "power1_cap": "750000000", "power1_cap_max": "750000000",
		"freq1_label": "sclk", "freq1_input": "2000000000", "freq2_label": "mclk", "freq2_input": "1300000000",
	} {
		files[fmt.Sprintf("hwmon/hwmon%d/%s", i+3, k)] = v
	}
	for name, content := range files {
		if content != "" && content[len(content)-1] != '\n' {
			content += "\n"
		}
		w.file(dev+"/"+name, content)
	}
	w.file(dev+"/gpu_metrics", string(table(i)))
	w.link(dev+"/driver", "../../../bus/pci/drivers/amdgpu")
	w.link(fmt.Sprintf("%s/hwmon/hwmon%d/device", dev, i+3), "../../../"+addr)
	w.link("sys/bus/pci/drivers/amdgpu/"+addr, "../../../../"+up)
	w.link("sys/bus/pci/devices/"+addr, "../../../"+up)
	w.link(fmt.Sprintf("sys/class/hwmon/hwmon%d", i+3), fmt.Sprintf("../../%s/hwmon/hwmon%d", up, i+3))
	for name, minor := range map[string]int{fmt.Sprintf("card%d", i): i, fmt.Sprintf("renderD%d", 128+i): 128 + i} {
		w.link("sys/class/drm/"+name, "../../"+up+"/drm/"+name)
		w.link(dev+"/drm/"+name+"/device", "../../../"+addr)
		w.file("dev/dri/"+name, fmt.Sprintf("226:%d 0660 0 44\n", minor))
	}
	w.file(fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d/properties", i+1), fmt.Sprintf(
		"cpu_cores_count 0\nsimd_count 1216\ngfx_target_version 90402\nvendor_id 4098\ndevice_id 29857\nlocation_id %d\ndomain %d\ndrm_render_minor %d\nunique_id %d\nnum_xcc 8\n",
		(5+i%32*7)<<8, i/32, 128+i, 0x7c1155aa20000000+i))
}

// table is a gpu_metrics v1_5 (struct gpu_metrics_v1_5 in kgd_pp_interface.h)
// with every number set.
func table(i int) []byte {
	b := make([]byte, 360)
	binary.LittleEndian.PutUint16(b, 360)
	b[2], b[3] = 1, 5
	put16 := func(off int, v uint16) { binary.LittleEndian.PutUint16(b[off:], v) }
	put64 := func(off int, v uint64) { binary.LittleEndian.PutUint64(b[off:], v) }
	for j, v := range []uint16{uint16(51 + i/4), 46, 44, uint16(410 + i), uint16(40 + i%50), uint16(20 + i%30)} {
		put16(4+2*j, v)
	}
	for j := range 36 { // vcn_activity, jpeg_activity
		put16(16+2*j, uint16(j))
	}
	put64(88, 1<<40+uint64(i)<<16)
	put64(96, 123_456_789_000)
	for j, v := range []uint16{16, 320, 16, 32} {
		put16(112+2*j, v)
	}
	for j := range 5 {
		put64(128+8*j, uint64(11+j))
	}
	binary.LittleEndian.PutUint32(b[168:], 4)
	binary.LittleEndian.PutUint32(b[172:], 5)
	for j := range 16 {
		put64(176+8*j, 1<<32+uint64(j*i))
	}
	put64(304, 99_999)
	for j := range 20 {
		put16(312+2*j, uint16(1100+10*j))
	}
	put16(352, 1300)
	return b
}
