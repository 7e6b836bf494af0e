package gpu

import (
	"errors"
	"path"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
)

const (
	classDisplay     = 0x03 // VGA, 3D and other display controllers
	classAccelerator = 0x12 // processing accelerators: MI300X and later
)

// function describes one PCI function from its sysfs directory (drivers/pci/pci-sysfs.c,
// pci_uevent in drivers/pci/pci-driver.c).
type function struct {
	dir            string // machine path
	addr           string // 0000:03:00.0
	vendor, device uint16
	class          uint32 // base class, subclass, interface
	driver         string // "" if none is bound
	hangs          bool   // no other field could be read
}

func (f function) base() uint8 { return uint8(f.class >> 16) }

func (f function) gpuClass() bool { return f.base() == classDisplay || f.base() == classAccelerator }

// readFunction reads class, ids, driver and address from `uevent`, and single files only
// for missing values. ok is false for a device outside the PCI bus.
func readFunction(r files, dir string) (f function, ok bool) {
	text, err := read(r, path.Join(dir, "uevent"))
	if err == nil {
		f = parseUevent(text)
	}
	f.dir = dir
	if errors.Is(err, errHangs) {
		return f.unread(r.Root)
	}
	if f.vendor == 0 {
		v, isHex := hex(value(r, path.Join(dir, "vendor")), 16)
		if !isHex {
			return f, false
		}
		d, _ := hex(value(r, path.Join(dir, "device")), 16)
		f.vendor, f.device = uint16(v), uint16(d)
	}
	if f.addr == "" {
		if f.addr = path.Base(dir); !pci.IsAddress(f.addr) {
			if f.addr = path.Base(target(r.Root, dir)); !pci.IsAddress(f.addr) {
				return f, false
			}
		}
	}
	if f.class == 0 {
		c, _ := hex(value(r, path.Join(dir, "class")), 32)
		f.class = uint32(c)
	}
	if f.driver == "" && vendorOf(f.vendor) != "" {
		if to := target(r.Root, path.Join(dir, "driver")); to != "" {
			f.driver = path.Base(to)
		}
	}
	return f, true
}

// unread completes a function that hangs and was never read, from links. ok is false if it
// is not a GPU.
func (f function) unread(r host.Root) (_ function, ok bool) {
	f.hangs = true
	if f.addr = path.Base(f.dir); !pci.IsAddress(f.addr) {
		f.addr = path.Base(target(r, f.dir))
	}
	f.driver = path.Base(target(r, path.Join(f.dir, "driver")))
	for _, v := range Vendors() {
		if computes(v, f.driver) {
			f.vendor, f.class = v.Traits().PCI, classDisplay<<16
		}
	}
	return f, f.vendor != 0 && pci.IsAddress(f.addr)
}

// parseUevent reads KEY=value lines. A value that is not in the kernel's format is ignored.
func parseUevent(text string) (f function) {
	for line := range strings.Lines(text) {
		key, val, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "DRIVER":
			f.driver = val
		case "PCI_CLASS":
			c, _ := hex(val, 32)
			f.class = uint32(c)
		case "PCI_ID":
			vendor, device, _ := strings.Cut(val, ":")
			v, okV := hex(vendor, 16)
			d, okD := hex(device, 16)
			if okV && okD {
				f.vendor, f.device = uint16(v), uint16(d)
			}
		case "PCI_SLOT_NAME":
			if pci.IsAddress(val) {
				f.addr = val
			}
		}
	}
	return f
}
