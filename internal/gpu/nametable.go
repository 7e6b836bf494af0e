package gpu

// knownName names the GPUs people most often bring, for units without
// amdgpu.ids and pci.ids and for GPUs newer than those files. The ids are those
// of libdrm's amdgpu.ids and of pci.ids; a row with anyRevision holds for every
// revision that has no row above it.
func knownName(m model) string {
	for _, row := range [...]struct {
		vendor   Vendor
		device   uint16
		revision int
		name     string
	}{
		{AMD, 0x66a1, 0x02, "AMD Instinct MI60/MI50"},
		{AMD, 0x7388, anyRevision, "AMD Instinct MI100"},
		{AMD, 0x66a1, 0x06, "AMD Radeon Pro VII"},
		{AMD, 0x66af, 0xc1, "AMD Radeon VII"},
		{AMD, 0x738c, anyRevision, "AMD Instinct MI100"},
		{AMD, 0x7408, anyRevision, "AMD Instinct MI250X"},
		{AMD, 0x740c, anyRevision, "AMD Instinct MI250X/MI250"},
		{AMD, 0x740f, anyRevision, "AMD Instinct MI210"},
		{AMD, 0x74a0, anyRevision, "AMD Instinct MI300A"},
		{AMD, 0x74a1, anyRevision, "AMD Instinct MI300X"},
		{AMD, 0x74a2, anyRevision, "AMD Instinct MI308X"},
		{AMD, 0x74a5, anyRevision, "AMD Instinct MI325X"},
		{AMD, 0x74a9, anyRevision, "AMD Instinct MI300X HF"},
		{AMD, 0x74b5, anyRevision, "AMD Instinct MI300X VF"},
		{AMD, 0x74b6, anyRevision, "AMD Instinct MI308X VF"},
		{AMD, 0x74b9, anyRevision, "AMD Instinct MI325X VF"},
		{AMD, 0x74bd, anyRevision, "AMD Instinct MI300X HF VF"},
		{AMD, 0x75a0, anyRevision, "AMD Instinct MI350X"},
		{AMD, 0x75a3, anyRevision, "AMD Instinct MI355X"},
		{AMD, 0x75b0, anyRevision, "AMD Instinct MI350X VF"}, // revision 00 in sysfs, C0 in amdgpu.ids
		{AMD, 0x75b3, anyRevision, "AMD Instinct MI355X VF"},
		{AMD, 0x73bf, 0xc0, "AMD Radeon RX 6900 XT"},
		{AMD, 0x73bf, 0xc1, "AMD Radeon RX 6800 XT"},
		{AMD, 0x73bf, 0xc3, "AMD Radeon RX 6800"},
		{AMD, 0x744c, 0xc8, "AMD Radeon RX 7900 XTX"},
		{AMD, 0x744c, 0xcc, "AMD Radeon RX 7900 XT"},
		{AMD, 0x744c, 0xce, "AMD Radeon RX 7900 GRE"},
		{AMD, 0x744c, 0xcf, "AMD Radeon RX 7900M"},
		{AMD, 0x7448, anyRevision, "AMD Radeon PRO W7900"},
		{AMD, 0x7449, anyRevision, "AMD Radeon PRO W7800 48GB"},
		{AMD, 0x744a, anyRevision, "AMD Radeon PRO W7900 Dual Slot"},
		{AMD, 0x745e, anyRevision, "AMD Radeon PRO W7800"},
		{AMD, 0x7460, anyRevision, "AMD Radeon PRO V710"},
		{AMD, 0x7461, anyRevision, "AMD Radeon PRO V710 VF"},
		{AMD, 0x7470, anyRevision, "AMD Radeon PRO W7700"},
		{AMD, 0x747e, 0xc8, "AMD Radeon RX 7800 XT"},
		{AMD, 0x747e, 0xff, "AMD Radeon RX 7700 XT"},
		{AMD, 0x747e, 0xd8, "AMD Radeon RX 7800M"},
		{AMD, 0x7480, 0x00, "AMD Radeon PRO W7600"},
		{AMD, 0x7480, 0xc0, "AMD Radeon RX 7600 XT"},
		{AMD, 0x7480, 0xc1, "AMD Radeon RX 7700S"},
		{AMD, 0x7480, 0xc2, "AMD Radeon RX 7650 GRE"},
		{AMD, 0x7480, 0xc3, "AMD Radeon RX 7600S"},
		{AMD, 0x7480, 0xc7, "AMD Radeon RX 7600M XT"},
		{AMD, 0x7480, 0xcf, "AMD Radeon RX 7600"},
		{AMD, 0x7483, 0xcf, "AMD Radeon RX 7600M"},
		{AMD, 0x7489, anyRevision, "AMD Radeon PRO W7500"},
		{AMD, 0x7550, 0xc0, "AMD Radeon RX 9070 XT"},
		{AMD, 0x7550, 0xc3, "AMD Radeon RX 9070"},
		{AMD, 0x7551, 0xc0, "AMD Radeon AI PRO R9700"},
		{AMD, 0x7590, 0xc0, "AMD Radeon RX 9060 XT"},
		{AMD, 0x1586, 0xc1, "AMD Radeon 8060S"},
		{AMD, 0x1586, anyRevision, "AMD Radeon 8060S/8050S"},
		{AMD, 0x15bf, 0x00, "AMD Radeon 780M"},
		{AMD, 0x15bf, 0xc1, "AMD Radeon 780M"},
		{AMD, 0x15bf, 0xc2, "AMD Radeon 780M"},
		{AMD, 0x15bf, 0xc4, "AMD Radeon 780M"},
		{AMD, 0x15bf, 0xc6, "AMD Radeon 780M"},
		{AMD, 0x15bf, 0xc7, "AMD Radeon 780M"},
		{AMD, 0x15bf, anyRevision, "AMD Radeon 780M/760M/740M"},
		{AMD, 0x150e, anyRevision, "AMD Radeon 890M/880M"},
		{AMD, 0x163f, anyRevision, "AMD Custom GPU 0405"},
		{NVIDIA, 0x1eb8, anyRevision, "NVIDIA Tesla T4"},
		{NVIDIA, 0x20b0, anyRevision, "NVIDIA A100 SXM4 40GB"},
		{NVIDIA, 0x2204, anyRevision, "NVIDIA GeForce RTX 3090"},
		{NVIDIA, 0x2330, anyRevision, "NVIDIA H100 SXM5 80GB"},
		{NVIDIA, 0x2684, anyRevision, "NVIDIA GeForce RTX 4090"},
		{NVIDIA, 0x2704, anyRevision, "NVIDIA GeForce RTX 4080"},
	} {
		if row.vendor == m.vendor && row.device == m.device &&
			(row.revision == anyRevision || row.revision == int(m.revision)) {
			return row.name
		}
	}
	return ""
}

const anyRevision = -1
