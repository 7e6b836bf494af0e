package chips

// model names the devices of one model. The ids are from libdrm's amdgpu.ids and from
// pci.ids. A row with anyRevision applies to every revision without a row above it.
type model struct {
	device   uint16
	revision int
	name     string
}

const anyRevision = -1

// models names common models, for machines without amdgpu.ids and pci.ids and for GPUs newer
// than those files.
var models = []model{
	{0x66a1, 0x02, "AMD Instinct MI60/MI50"},
	{0x7388, anyRevision, "AMD Instinct MI100"},
	{0x66a1, 0x06, "AMD Radeon Pro VII"},
	{0x66af, 0xc1, "AMD Radeon VII"},
	{0x738c, anyRevision, "AMD Instinct MI100"},
	{0x7408, anyRevision, "AMD Instinct MI250X"},
	{0x740c, anyRevision, "AMD Instinct MI250X/MI250"},
	{0x740f, anyRevision, "AMD Instinct MI210"},
	{0x74a0, anyRevision, "AMD Instinct MI300A"},
	{0x74a1, anyRevision, "AMD Instinct MI300X"},
	{0x74a2, anyRevision, "AMD Instinct MI308X"},
	{0x74a5, anyRevision, "AMD Instinct MI325X"},
	{0x74a9, anyRevision, "AMD Instinct MI300X HF"},
	{0x74b5, anyRevision, "AMD Instinct MI300X VF"},
	{0x74b6, anyRevision, "AMD Instinct MI308X VF"},
	{0x74b9, anyRevision, "AMD Instinct MI325X VF"},
	{0x74bd, anyRevision, "AMD Instinct MI300X HF VF"},
	{0x75a0, anyRevision, "AMD Instinct MI350X"},
	{0x75a3, anyRevision, "AMD Instinct MI355X"},
	{0x75b0, anyRevision, "AMD Instinct MI350X VF"}, // revision 00 in sysfs, C0 in amdgpu.ids
	{0x75b3, anyRevision, "AMD Instinct MI355X VF"},
	{0x73bf, 0xc0, "AMD Radeon RX 6900 XT"},
	{0x73bf, 0xc1, "AMD Radeon RX 6800 XT"},
	{0x73bf, 0xc3, "AMD Radeon RX 6800"},
	{0x744c, 0xc8, "AMD Radeon RX 7900 XTX"},
	{0x744c, 0xcc, "AMD Radeon RX 7900 XT"},
	{0x744c, 0xce, "AMD Radeon RX 7900 GRE"},
	{0x744c, 0xcf, "AMD Radeon RX 7900M"},
	{0x7448, anyRevision, "AMD Radeon PRO W7900"},
	{0x7449, anyRevision, "AMD Radeon PRO W7800 48GB"},
	{0x744a, anyRevision, "AMD Radeon PRO W7900 Dual Slot"},
	{0x745e, anyRevision, "AMD Radeon PRO W7800"},
	{0x7460, anyRevision, "AMD Radeon PRO V710"},
	{0x7461, anyRevision, "AMD Radeon PRO V710 VF"},
	{0x7470, anyRevision, "AMD Radeon PRO W7700"},
	{0x747e, 0xc8, "AMD Radeon RX 7800 XT"},
	{0x747e, 0xff, "AMD Radeon RX 7700 XT"},
	{0x747e, 0xd8, "AMD Radeon RX 7800M"},
	{0x7480, 0x00, "AMD Radeon PRO W7600"},
	{0x7480, 0xc0, "AMD Radeon RX 7600 XT"},
	{0x7480, 0xc1, "AMD Radeon RX 7700S"},
	{0x7480, 0xc2, "AMD Radeon RX 7650 GRE"},
	{0x7480, 0xc3, "AMD Radeon RX 7600S"},
	{0x7480, 0xc7, "AMD Radeon RX 7600M XT"},
	{0x7480, 0xcf, "AMD Radeon RX 7600"},
	{0x7483, 0xcf, "AMD Radeon RX 7600M"},
	{0x7489, anyRevision, "AMD Radeon PRO W7500"},
	{0x7550, 0xc0, "AMD Radeon RX 9070 XT"},
	{0x7550, 0xc3, "AMD Radeon RX 9070"},
	{0x7551, 0xc0, "AMD Radeon AI PRO R9700"},
	{0x7590, 0xc0, "AMD Radeon RX 9060 XT"},
	{0x1586, 0xc1, "AMD Radeon 8060S"},
	{0x1586, anyRevision, "AMD Radeon 8060S/8050S"},
	{0x15bf, 0x00, "AMD Radeon 780M"},
	{0x15bf, 0xc1, "AMD Radeon 780M"},
	{0x15bf, 0xc2, "AMD Radeon 780M"},
	{0x15bf, 0xc4, "AMD Radeon 780M"},
	{0x15bf, 0xc6, "AMD Radeon 780M"},
	{0x15bf, 0xc7, "AMD Radeon 780M"},
	{0x15bf, anyRevision, "AMD Radeon 780M/760M/740M"},
	{0x150e, anyRevision, "AMD Radeon 890M/880M"},
	{0x163f, anyRevision, "AMD Custom GPU 0405"},
	{0x13c0, anyRevision, "AMD Radeon Graphics"},
	{0x164e, anyRevision, "AMD Radeon Graphics"},
}
