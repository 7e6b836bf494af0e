package amdgpu

import (
	"path"
	"strconv"
	"strings"
)

// Severities are those of PCIe's errors, each with a file aer_dev_*.
var Severities = []string{"correctable", "nonfatal", "fatal"}

// readInventory reads what a GPU is made of and set to, and what PCIe has counted for
// it: files that a person would look at when one GPU behaves otherwise than its like.
func (r *Reader) readInventory(s *slowState) {
	entries, _ := r.root.ReadDir(path.Join(r.device.Dir, "fw_version"))
	for _, e := range entries {
		component, ok := strings.CutSuffix(e.Name(), "_fw_version")
		version := r.once(path.Join(r.device.Dir, "fw_version", e.Name()))
		if ok && version != "" && strings.Trim(version, "0x") != "" { // all zeros: not loaded
			s.inventory.Firmware = append(s.inventory.Firmware, Firmware{component, version})
		}
	}
	s.inventory.MemoryVendor = r.once(path.Join(r.device.Dir, "mem_info_vram_vendor"))
	s.inventory.PerformanceLevel = r.once(path.Join(r.device.Dir, "power_dpm_force_performance_level"))
	for _, severity := range Severities {
		if n, ok := AERTotal(r.once(path.Join(r.device.Dir, "aer_dev_"+severity))); ok {
			s.aer = append(s.aer, AERCount{severity, n})
		}
	}
}

// AERTotal finds the line "TOTAL_ERR_COR 3" that sums up the others
// (drivers/pci/pcie/aer.c).
func AERTotal(text string) (float64, bool) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 63); err == nil && strings.HasPrefix(name, "TOTAL_ERR_") {
			return float64(n), true
		}
	}
	return 0, false
}
