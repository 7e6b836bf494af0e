package pci

import (
	"strconv"
	"strings"
)

// AERSeverities lists the severities of PCIe's errors, each with a file aer_dev_*.
var AERSeverities = []string{"correctable", "nonfatal", "fatal"}

// AERTotal finds the line "TOTAL_ERR_COR 3", the sum of the others
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
