// Package chips has the table of AMD's chips by PCI device id. It needs only the standard
// library, because programs for other systems than Linux read it as well. It reads no
// machine.
package chips

import "slices"

// Vendor is AMD's PCI vendor id.
const Vendor = 0x1002

// Family is a line of AMD's GPUs with common drivers and support.
type Family string

// The families.
const (
	Instinct Family = "instinct" // data centre
	Radeon   Family = "radeon"   // graphics cards and workstation cards
	APU      Family = "apu"      // integrated into a processor
	Unknown  Family = ""         // missing in the table
)

// Chip describes the devices with one chip.
type Chip struct {
	Family  Family
	GFX     string // architecture, as KFD reports it for the chip
	Devices []uint16
}

// table maps PCI device ids of vendor 1002 to chips, by the names in pci.ids
// (github.com/pciutils/pciids): Instinct, the Navi chips of cards, the code names of
// processors. Virtual functions have the chip of their GPU. The architectures are those
// that the kernel's driver reports (amdkfd/kfd_device.c). Ids that pci.ids lacks are left
// out.
func table() []Chip {
	return []Chip{
		// Vega 20 (MI50, MI60), Arcturus (MI100), Aldebaran (MI250X, MI250, MI210)
		{Instinct, "gfx906", []uint16{0x66a0, 0x66a1}},
		{Instinct, "gfx908", []uint16{0x7388, 0x738c, 0x738e}},
		{Instinct, "gfx90a", []uint16{0x7408, 0x740c, 0x740f}},
		// MI300A, MI300X, MI308X, MI325X, MI300X HF; virtual functions of MI300X, MI325X, MI300X HF
		{Instinct, "gfx942", []uint16{0x74a0, 0x74a1, 0x74a2, 0x74a5, 0x74a9, 0x74b5, 0x74b9, 0x74bd}},
		// MI350X, MI355X, MI350P
		{Instinct, "gfx950", []uint16{0x75a0, 0x75a3, 0x75a8}},
		// Navi 21, 22, 23, 24
		{Radeon, "gfx1030", []uint16{0x73a1, 0x73a2, 0x73a3, 0x73a5, 0x73ab, 0x73ae, 0x73af, 0x73bf}},
		{Radeon, "gfx1031", []uint16{0x73df}},
		{Radeon, "gfx1032", []uint16{0x73e3, 0x73ef, 0x73ff}},
		{Radeon, "gfx1034", []uint16{0x7422, 0x743f}},
		// Navi 31, 32, 33
		{Radeon, "gfx1100", []uint16{0x7448, 0x7449, 0x744a, 0x744b, 0x744c, 0x745e}},
		{Radeon, "gfx1101", []uint16{0x7460, 0x7461, 0x7470, 0x747e}},
		{Radeon, "gfx1102", []uint16{0x7480, 0x7481, 0x7483, 0x7487, 0x7489, 0x748b, 0x7499, 0x749f}},
		// Navi 48, 44
		{Radeon, "gfx1201", []uint16{0x7550, 0x7551}},
		{Radeon, "gfx1200", []uint16{0x7590}},
		// Raven and Picasso; Renoir, Cezanne, Lucienne and Barcelo
		{APU, "gfx902", []uint16{0x15dd, 0x15d8}},
		{APU, "gfx90c", []uint16{0x1636, 0x1638, 0x164c, 0x15e7}},
		// Van Gogh; Rembrandt; Raphael, Mendocino and Granite Ridge
		{APU, "gfx1033", []uint16{0x163f}},
		{APU, "gfx1035", []uint16{0x164d, 0x1681}},
		{APU, "gfx1036", []uint16{0x164e, 0x1506, 0x13c0}},
		// Phoenix and Hawk Point; Strix, Strix Halo, Krackan
		{APU, "gfx1103", []uint16{0x15bf, 0x15c8, 0x1900, 0x1901}},
		{APU, "gfx1150", []uint16{0x150e}},
		{APU, "gfx1151", []uint16{0x1586}},
		{APU, "gfx1152", []uint16{0x1114}},
	}
}

// Of returns the chip of a PCI device of AMD. A device that the table lacks gives the zero
// Chip.
func Of(device uint16) Chip {
	for _, c := range table() {
		if slices.Contains(c.Devices, device) {
			return c
		}
	}
	return Chip{}
}
