package gpu

import (
	"cmp"
	"path"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

const pciDevices = "/sys/bus/pci/devices"

// Discover finds the GPUs of the machine below r. A GPU that cannot be read is in
// Inventory.Unusable and hides no other. The error means that sysfs itself cannot be
// listed. A machine without sysfs has no GPU.
//
// Discover also returns if a GPU hangs. It identifies that GPU by its previous reading. A
// GPU without one is unusable with the reason Hangs.
func Discover(r host.Root) (inv Inventory, err error) {
	err = withFiles(r, func(f files) (err error) {
		inv, err = discover(f)
		return err
	})
	fillNames(r, &inv)
	return inv, err
}

func discover(r files) (Inventory, error) {
	drm, err := drmDevices(r.Root)
	if err != nil {
		return Inventory{}, err
	}
	d := &discovery{root: r, functions: map[string]function{}}
	d.fromDRM(drm)
	d.fromPCI()
	for _, v := range Vendors() {
		makers[v].complete(d)
	}
	d.inv.sort()
	d.inv.clearDuplicateIDs()
	d.inv.number()
	d.inv.KFD = readKFD(r)
	return d.inv, nil
}

type discovery struct {
	root       files
	inv        Inventory
	functions  map[string]function // every GPU-like PCI function, by address
	partitions []*drmDevice
}

// fromDRM judges the devices with DRM nodes: all GPUs with a working driver.
func (d *discovery) fromDRM(drm *drmList) {
	var order []function
	nodes := map[string]*drmDevice{}
	take := func(dev *drmDevice) {
		if dev.partition() {
			d.partitions = append(d.partitions, dev)
			return
		}
		f, ok := readFunction(d.root, dev.dir)
		if v := vendorOf(f.vendor); ok && v != "" {
			d.inv.addMinors(v, dev)
		}
		switch {
		case !ok: // simple framebuffers, vkms, GPUs that are not on PCI
		case nodes[f.addr] != nil:
			nodes[f.addr].join(dev)
		default:
			nodes[f.addr] = dev
			order = append(order, f)
		}
	}
	for _, dev := range drm.devs {
		take(dev)
	}
	for _, f := range order {
		if f.driver == amdDriver {
			known := len(drm.devs)
			drm.addPartitions(d.root.Root)
			for _, dev := range drm.devs[known:] {
				take(dev)
			}
			break
		}
	}
	for _, f := range order {
		d.functions[f.addr] = f
		d.judge(f, nodes[f.addr])
	}
}

// fromPCI adds functions without a DRM node: GPUs without a driver, or reserved for virtual
// machines.
func (d *discovery) fromPCI() {
	entries, err := d.root.ReadDir(pciDevices)
	if err != nil {
		return // sysfs shows no PCI bus
	}
	for _, e := range entries {
		if _, seen := d.functions[e.Name()]; seen {
			continue
		}
		dir := path.Join(pciDevices, e.Name())
		f, ok := readFunction(d.root, dir)
		if _, seen := d.functions[f.addr]; !ok || seen || !f.gpuClass() {
			continue
		}
		f.dir = cmp.Or(target(d.root.Root, dir), dir)
		d.functions[f.addr] = f
		d.judge(f, &drmDevice{dir: f.dir})
	}
}

// judge adds a PCI function to the usable GPUs, or to the unusable ones with the first
// reason. It skips functions that are not GPUs.
func (d *discovery) judge(f function, dev *drmDevice) {
	vendor := vendorOf(f.vendor)
	switch {
	case f.hangs:
		why := Hangs
		if dev.render != "" && !d.root.Exists(path.Join(driDir, dev.render)) {
			why = NotPassedThrough // belongs to another unit
		}
		d.addUnusable(f, why, "%s", why.Text())
	case f.class == 0 && vendor != "":
		d.addUnusable(f, SysfsUnreadable, "sysfs gives no PCI class for it")
	case !f.gpuClass() || vendor == "" && f.base() != classDisplay:
		return
	case isBMC(f.vendor):
		d.addUnusable(f, BMC, "%s", BMC.Text())
	case f.vendor == 0x1414 && f.device == 0x008e: // Microsoft's virtual GPU
		d.addUnusable(f, WSL, "%s", WSL.Text())
	case vendor == "":
		d.addUnusable(f, OtherVendor, "PCI vendor %#04x is %s", f.vendor, OtherVendor.Text())
	case f.driver == "":
		d.addUnusable(f, NoDriver, "%s", NoDriver.Text())
	case f.driver == "vfio-pci" || f.driver == "pci-stub" || f.driver == "pciback":
		d.addUnusable(f, VFIO, "bound to %s: %s", f.driver, VFIO.Text())
	case !computes(vendor, f.driver):
		d.addUnusable(f, OtherDriver, "bound to %s: %s", f.driver, OtherDriver.Text())
	case dev.render == "":
		d.addUnusable(f, NoRenderNode, "driver %s made no render node", f.driver)
	default:
		d.addUsable(f, dev)
	}
}

// addUsable adds the GPU if its render node belongs to this machine.
func (d *discovery) addUsable(f function, dev *drmDevice) *GPU {
	render, bad := d.node(dev, dev.render)
	if bad != nil {
		d.addUnusable(f, bad.reason, "%s", bad.text)
		return nil
	}
	g := GPU{
		Slot:     Slot{Vendor: vendorOf(f.vendor), PCI: f.addr, Sysfs: f.dir, DRM: dev.class[cmp.Or(dev.card, dev.render)]},
		DeviceID: f.device, Class: f.class, Driver: f.driver, Revision: d.revision(f), Render: render, KFDNode: -1,
	}
	if dev.card != "" {
		if card, bad := d.node(dev, dev.card); bad == nil {
			g.Card = &card
		}
	}
	if m, ok := makers[g.Vendor]; ok {
		m.identify(d.root, &g)
	}
	d.inv.GPUs = append(d.inv.GPUs, g)
	return &d.inv.GPUs[len(d.inv.GPUs)-1]
}

func (d *discovery) addUnusable(f function, why Reason, format string, args ...any) {
	l := newUnusable(f, why, format, args...)
	if l.Vendor != "" {
		l.Revision = d.revision(f)
	}
	d.inv.Unusable = append(d.inv.Unusable, l)
}

func (d *discovery) revision(f function) uint8 {
	rev, _ := hex(value(d.root, path.Join(f.dir, "revision")), 8)
	return uint8(rev)
}

// computes reports whether a task can compute with the render node of a driver. The driver
// radeon has render nodes too, but no compute stack.
func computes(v Vendor, driver string) bool { return v.Traits().Drivers[driver] != "" }

// isBMC reports whether a vendor makes display chips of management controllers: ASPEED,
// Matrox (G200e), HiSilicon (hibmc).
func isBMC(vendor uint16) bool { return vendor == 0x1a03 || vendor == 0x102b || vendor == 0x19e5 }

// parseUniqueID converts an id to 16 lower-case hex digits. sysfs has hex, KFD decimal. 0
// and an empty file both mean that the hardware has no id.
func parseUniqueID(text string, base int) string {
	id, err := strconv.ParseUint(text, base, 64)
	if err != nil || id == 0 {
		return ""
	}
	s := strconv.FormatUint(id, 16)
	return strings.Repeat("0", 16-len(s)) + s
}
