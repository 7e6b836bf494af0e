package gpu

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// A GPU's name is the first of: `product_name` of its own memory (server GPUs), libdrm's
// amdgpu.ids (which distinguishes revisions), the system's pci.ids, the table of its
// vendor, and "AMD GPU 1002:744c", which people can look up with lspci -d 1002:744c.

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
	for _, g := range slices.Concat(inv.GPUs, inv.Unusable) {
		if g.Model == "" {
			want[model{g.Vendor, g.DeviceID, g.Revision}] = ""
		}
	}
	for _, v := range Vendors() {
		makers[v].readNames(r, want)
	}
	for _, file := range []string{"/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"} {
		if !want.missing("") {
			break
		}
		want.fromFile(r, file, want.scanPCI())
	}
	for _, gpus := range [][]GPU{inv.GPUs, inv.Unusable} {
		for i := range gpus {
			if g := &gpus[i]; g.Model == "" {
				g.Model = want.find(model{g.Vendor, g.DeviceID, g.Revision})
			}
		}
	}
}

// find returns the name found, otherwise the name in the vendor's table, otherwise a name
// made of the id.
func (n names) find(m model) string {
	name := n[m]
	if maker, ok := makers[m.vendor]; ok && name == "" {
		name = maker.model(m.device, m.revision)
	}
	if name != "" {
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
	return slices.ContainsFunc(Vendors(), func(v Vendor) bool {
		return id <= uint64(v.Traits().PCI) && p.names.missing(v)
	})
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
