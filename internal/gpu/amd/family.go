package amd

// Family is a line of AMD's GPUs that shares drivers and AMD's support.
type Family string

// The families.
const (
	Instinct Family = "instinct" // data centre
	Radeon   Family = "radeon"   // graphics cards and workstation cards
	APU      Family = "apu"      // integrated into a processor
	Unknown  Family = ""         // not in the table: no guess
)

// familyOf tells the PCI device ids of vendor 1002 apart by the names that
// pci.ids (github.com/pciutils/pciids) gives them: Instinct, the Navi chips of
// cards, the code names of processors. Virtual functions are of their GPU's
// family. An id that pci.ids does not have is left out.
func familyOf(device uint16) Family {
	switch device {
	case 0x66a0, 0x66a1, // Vega 20: MI50, MI60
		0x7388, 0x738c, 0x738e, // Arcturus: MI100
		0x7408, 0x740c, 0x740f, // Aldebaran: MI250X, MI250, MI210
		0x74a0, 0x74a1, 0x74a2, 0x74a5, 0x74a9, // MI300A, MI300X, MI308X, MI325X, MI300X HF
		0x74b5, 0x74b9, 0x74bd, // virtual functions of MI300X, MI325X, MI300X HF
		0x75a0, 0x75a3, 0x75a8: // MI350X, MI355X, MI350P
		return Instinct
	case 0x73a1, 0x73a2, 0x73a3, 0x73a5, 0x73ab, 0x73ae, 0x73af, 0x73bf, // Navi 21
		0x73df,                 // Navi 22
		0x73e3, 0x73ef, 0x73ff, // Navi 23
		0x7422, 0x743f, // Navi 24
		0x7448, 0x7449, 0x744a, 0x744b, 0x744c, 0x745e, // Navi 31
		0x7460, 0x7461, 0x7470, 0x747e, // Navi 32
		0x7480, 0x7481, 0x7483, 0x7487, 0x7489, 0x748b, 0x7499, 0x749f, // Navi 33
		0x7550, 0x7551, // Navi 48
		0x7590: // Navi 44
		return Radeon
	case 0x15dd, 0x15d8, // Raven, Picasso
		0x1636, 0x1638, 0x164c, 0x15e7, // Renoir, Cezanne, Lucienne, Barcelo
		0x163f, 0x164d, 0x1681, // Van Gogh, Rembrandt
		0x164e, 0x1506, // Raphael, Mendocino
		0x15bf, 0x15c8, 0x1900, 0x1901, // Phoenix, Hawk Point
		0x150e, 0x1586, 0x1114, 0x13c0: // Strix, Strix Halo, Krackan, Granite Ridge
		return APU
	}
	return Unknown
}
