package gpu

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"concourse-ci-machine/internal/base/host"
)

// A GPU's name is the first of: `product_name` of its own memory (server GPUs), libdrm's
// amdgpu.ids (which distinguishes revisions), the system's pci.ids, the table of knownName,
// and "AMD GPU 1002:744c", which people can look up with lspci -d 1002:744c.
const amdgpuIDs = "/usr/share/libdrm/amdgpu.ids"

func pciIDFiles() []string {
	return []string{"/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"}
}

// model holds the values that determine a name.
type model struct {
	vendor   Vendor
	device   uint16
	revision uint8
}

// names maps models to their names, "" until one is found.
type names map[model]string

func (n names) missing(v Vendor) bool {
	for m, name := range n {
		if name == "" && (v == "" || m.vendor == v) {
			return true
		}
	}
	return false
}

// fillNames sets the missing names. It reads the files only for models that require them,
// each at most once, and pci.ids (1.5 MB) only up to the last required vendor.
func fillNames(r host.Root, inv *Inventory) {
	want := names{}
	for _, g := range inv.GPUs {
		if g.Name == "" {
			want[model{g.Vendor, g.DeviceID, g.Revision}] = ""
		}
	}
	for _, l := range inv.Unusable {
		if l.Name == "" {
			want[model{l.Vendor, l.DeviceID, l.Revision}] = ""
		}
	}
	if want.missing(AMD) {
		want.fromFile(r, amdgpuIDs, want.scanAMDGPU)
	}
	for _, file := range pciIDFiles() {
		if !want.missing("") {
			break
		}
		want.fromFile(r, file, want.scanPCI())
	}
	for i := range inv.GPUs {
		if g := &inv.GPUs[i]; g.Name == "" {
			g.Name = want.find(model{g.Vendor, g.DeviceID, g.Revision})
		}
	}
	for i := range inv.Unusable {
		if l := &inv.Unusable[i]; l.Name == "" {
			l.Name = want.find(model{l.Vendor, l.DeviceID, l.Revision})
		}
	}
}

// find returns the name found, otherwise the name in knownName, otherwise a name made of
// the id.
func (n names) find(m model) string {
	if name := n[m]; name != "" {
		return name
	}
	if name := knownName(m); name != "" {
		return name
	}
	return fmt.Sprintf("%s GPU %04x:%04x", m.vendor.Label(), m.vendor.Traits().PCI, m.device)
}

// maxIDs bounds the id files: pci.ids had 1.6 MB in 2025.
const maxIDs = 16 << 20

// fromFile calls scan with each line of an id file. A missing or unreadable file only costs
// the nicer name.
func (n names) fromFile(r host.Root, file string, scan func(line []byte) (more bool)) {
	f, err := os.Open(r.Path(file))
	if err != nil {
		return
	}
	defer f.Close()
	lines := bufio.NewReaderSize(io.LimitReader(f, maxIDs), 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return // not an id file: its lines are shorter than 64 KiB
		}
		if !scan(line) || err != nil {
			return
		}
	}
}

// scanAMDGPU reads a line of amdgpu.ids: "744C,\tCC,\tAMD Radeon RX 7900 XT".
func (n names) scanAMDGPU(line []byte) (more bool) {
	device, rest, _ := strings.Cut(string(line), ",")
	revision, name, found := strings.Cut(rest, ",")
	d, okD := hex(strings.TrimSpace(device), 16)
	v, okV := hex(strings.TrimSpace(revision), 8)
	if !found || !okD || !okV {
		return true
	}
	m := model{AMD, uint16(d), uint8(v)}
	if old, wanted := n[m]; wanted && old == "" {
		n[m] = clean(name)
	}
	return true
}

// clean returns a name on one line and with bounded length.
func clean(name string) string {
	name = strings.Join(strings.Fields(name), " ")
	if len(name) > 100 {
		name = strings.ToValidUTF8(name[:100], "")
	}
	return name
}

// pciIDs reads pci.ids: "1002 Vendor" in the first column, its devices after one tab
// ("\t744c Navi 31 [Radeon RX 7900 XT/7900 XTX]"), subsystems after two tabs. Vendors are
// in ascending order, then classes ("C 03 Display controller").
type pciIDs struct {
	names  names
	vendor Vendor
}

func (n names) scanPCI() func(line []byte) bool { return (&pciIDs{names: n}).scan }

func (p *pciIDs) scan(line []byte) (more bool) {
	switch {
	case len(line) < 7 || line[0] == '#':
		return true
	case line[0] != '\t':
		return p.startVendor(line)
	case p.vendor == "" || line[1] == '\t':
		return true
	}
	id, ok := hex(string(line[1:5]), 16)
	if !ok {
		return true
	}
	for m, old := range p.names { // few: the models of this machine
		if m.vendor == p.vendor && m.device == uint16(id) && old == "" {
			p.names[m] = marketing(p.vendor, string(line[5:]))
		}
	}
	return true
}

// startVendor sets the vendor of the following devices. more is false after all required
// vendors.
func (p *pciIDs) startVendor(line []byte) (more bool) {
	p.vendor = ""
	id, ok := hex(string(line[:4]), 16)
	if !ok {
		return line[0] != 'C' // the classes follow all vendors
	}
	p.vendor = vendorOf(uint16(id))
	return id <= uint64(traits[AMD].PCI) && p.names.missing(AMD) || id <= uint64(traits[NVIDIA].PCI) &&
		p.names.missing(NVIDIA)
}

// marketing returns the vendor and the name in brackets ("AD102 [GeForce RTX 4090]"), or
// the whole name without brackets.
func marketing(v Vendor, text string) string {
	text = clean(text)
	if _, inner, found := strings.Cut(text, "["); found {
		if inner, _, found = strings.Cut(inner, "]"); found && inner != "" {
			text = inner
		}
	}
	if text == "" || strings.HasPrefix(text, v.Label()+" ") {
		return text
	}
	return v.Label() + " " + text
}

// knownName returns the names of the most common GPUs, for units without amdgpu.ids and
// pci.ids and for GPUs newer than those files. The ids are from libdrm's amdgpu.ids and
// from pci.ids. A row with anyRevision applies to every revision without a row above it.
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
