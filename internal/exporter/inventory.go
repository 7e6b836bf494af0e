package exporter

import (
	"path"
	"strconv"
	"strings"
)

// readInventory reads what a GPU is made of and set to, and what PCIe has counted for
// it: files that a person would look at when one GPU behaves otherwise than its like.
func (c *card) readInventory() {
	entries, _ := c.root.ReadDir(path.Join(c.device.Dir, "fw_version"))
	for _, e := range entries {
		component, ok := strings.CutSuffix(e.Name(), "_fw_version")
		version := c.once(path.Join(c.device.Dir, "fw_version", e.Name()))
		if ok && version != "" && strings.Trim(version, "0x") != "" { // all zeros: not loaded
			c.put(firmwareInfo, 1, label("component", component), label("version", version), label("model", c.device.Name))
		}
	}
	if vendor := c.once(path.Join(c.device.Dir, "mem_info_vram_vendor")); vendor != "" {
		c.put(memoryInfo, 1, label("vendor", vendor))
	}
	if level := c.once(path.Join(c.device.Dir, "power_dpm_force_performance_level")); level != "" {
		c.put(performanceLevel, 1, label("level", level))
	}
	for _, severity := range []string{"correctable", "nonfatal", "fatal"} {
		if n, ok := aerTotal(c.once(path.Join(c.device.Dir, "aer_dev_"+severity))); ok {
			c.put(aerErrors, n, label("severity", severity))
		}
	}
}

// aerTotal finds the line "TOTAL_ERR_COR 3" that sums up the others
// (drivers/pci/pcie/aer.c).
func aerTotal(text string) (float64, bool) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 63); err == nil && strings.HasPrefix(name, "TOTAL_ERR_") {
			return float64(n), true
		}
	}
	return 0, false
}
