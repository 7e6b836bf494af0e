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

// A GPU's name is the first of: `product_name` of its own memory (server
// GPUs), libdrm's amdgpu.ids (which knows revisions), the system's pci.ids,
// the table in nametable.go, and "AMD GPU 1002:744c", by which
// people find it: lspci -d 1002:744c.
const amdgpuIDs = "/usr/share/libdrm/amdgpu.ids"

func pciIDFiles() []string {
	return []string{"/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"}
}

// model is what a name depends on.
type model struct {
	vendor   Vendor
	device   uint16
	revision uint8
}

// names maps models to their names, "" while none is found.
type names map[model]string

func (n names) missing(v Vendor) bool {
	for m, name := range n {
		if name == "" && (v == "" || m.vendor == v) {
			return true
		}
	}
	return false
}

// fillNames names everything that has no name yet. The files are read only
// for models that need them, each at most once, and pci.ids (1.5 MB) no
// further than the last vendor asked for.
func fillNames(r host.Root, inv *Inventory) {
	want := names{}
	for _, g := range inv.GPUs {
		if g.Name == "" {
			want[model{g.Vendor, g.DeviceID, g.Revision}] = ""
		}
	}
	for _, l := range inv.Left {
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
			g.Name = want.of(model{g.Vendor, g.DeviceID, g.Revision})
		}
	}
	for i := range inv.Left {
		if l := &inv.Left[i]; l.Name == "" {
			l.Name = want.of(model{l.Vendor, l.DeviceID, l.Revision})
		}
	}
}

// of is the name found, else the one of our table, else a name made of the id.
func (n names) of(m model) string {
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

// fromFile lets scan look at each line of an id file. That there is none, or
// that it cannot be read, costs only the nicer name.
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
			return // not such a file: no line there has 64 KiB
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

// clean keeps a name on one line and of bounded length.
func clean(name string) string {
	name = strings.Join(strings.Fields(name), " ")
	if len(name) > 100 {
		name = strings.ToValidUTF8(name[:100], "")
	}
	return name
}
