package gpu

import "strings"

// pciIDs reads pci.ids: "1002  Vendor" in the first column, its devices after
// one tab ("\t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX]"), subsystems after
// two; vendors in ascending order, then classes ("C 03  Display controller").
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
	for m, old := range p.names { // a handful: the models of this machine
		if m.vendor == p.vendor && m.device == uint16(id) && old == "" {
			p.names[m] = marketing(p.vendor, string(line[5:]))
		}
	}
	return true
}

// startVendor notes whose devices follow; more is false when those wanted are
// all behind.
func (p *pciIDs) startVendor(line []byte) (more bool) {
	p.vendor = ""
	id, ok := hex(string(line[:4]), 16)
	if !ok {
		return line[0] != 'C' // the classes come after all vendors
	}
	p.vendor = vendorOf(uint16(id))
	return id <= uint64(traits[AMD].PCI) && p.names.missing(AMD) || id <= uint64(traits[NVIDIA].PCI) &&
		p.names.missing(NVIDIA)
}

// marketing is the name in brackets where there is one ("AD102 [GeForce RTX
// 4090]"), with the vendor before it.
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
