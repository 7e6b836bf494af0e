// Package chips has the table of AMD's chips by PCI device id. It needs only the standard
// library, because programs for other systems than Linux read it as well. It reads no
// machine.
package chips

import (
	"slices"
	"strings"
)

// Vendor is AMD's PCI vendor id.
const Vendor = 0x1002

// Family is a line of AMD's GPUs with common drivers and support.
type Family string

// The families.
const (
	Instinct Family = "instinct" // data centre
	Radeon   Family = "radeon"   // graphics cards and workstation cards
	APU      Family = "apu"      // integrated into a processor, with the memory of the machine
	Unknown  Family = ""         // missing in the table
)

// Chip describes the devices with one chip.
type Chip struct {
	Family   Family
	GFX      string // architecture, as KFD reports it for the chip
	Labeller string // name of the kernel's AMDGPU_FAMILY in AMD's node labeller; "" if it has none
	Devices  []uint16
}

// Of returns the chip of a PCI device of AMD. A device that the table lacks gives the zero
// Chip.
func Of(device uint16) Chip {
	return first(func(c Chip) bool { return slices.Contains(c.Devices, device) })
}

// Find returns the chip of a device. For a device that the table lacks it returns a chip with
// the architecture that KFD reports.
func Find(device uint16, gfx string) Chip {
	if c := Of(device); c.GFX != "" || gfx == "" {
		return c
	}
	c := first(func(c Chip) bool { return c.GFX == gfx })
	return Chip{c.Family, gfx, c.Labeller, nil}
}

func first(is func(Chip) bool) Chip {
	if i := slices.IndexFunc(table, is); i >= 0 {
		return table[i]
	}
	return Chip{}
}

// Integrated reports whether only processors have an architecture. That of MI300A, which has
// its own memory, is also in cards.
func Integrated(gfx string) bool {
	return first(func(c Chip) bool { return c.GFX == gfx }).Family == APU
}

// WithoutROCm reports whether no ROCm of the table of releases supports an architecture: 6.3
// and later are built without GCN 2 to 4, gfx7 and gfx8.
func WithoutROCm(gfx string) bool {
	return strings.HasPrefix(gfx, "gfx7") || strings.HasPrefix(gfx, "gfx8")
}

// Name returns the name of a model, "" if the table lacks it.
func Name(device uint16, revision uint8) string {
	for _, m := range models {
		if m.device == device && (m.revision == anyRevision || m.revision == int(revision)) {
			return m.name
		}
	}
	return ""
}
