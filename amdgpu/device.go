package amdgpu

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// Device describes one GPU, or one partition of a GPU, with the folders of its values.
// Devices makes those of whole GPUs.
type Device struct {
	Dir string // directory of the PCI device, without links: /sys/devices/pci0000:00/0000:03:00.0
	// Own is the directory with the partition's own table: Dir for the first partition and
	// for a whole GPU, and a platform device for each further one. "" means no such table.
	Own       string
	PCI       string // address, "0000:03:00.0"
	IDs       string // PCI ids of vendor and model, "1002:744c"
	Partition int    // 0 for a whole GPU or for the first partition
	UniqueID  string // 16 hex digits; "" if the hardware has none
	GFX       string // architecture, "gfx90a"; "" if unknown: then MI200's energy is unknown, too
}

// UUID identifies the card permanently if possible: GPU-<unique_id> as in HIP, otherwise
// the board's serial number, otherwise the PCI address, which identifies the slot. A
// partition without an id gets the address and its number, because all partitions share the
// serial number.
func (d Device) UUID(serial string) string {
	switch {
	case d.UniqueID != "":
		return "GPU-" + d.UniqueID
	case d.Partition > 0:
		return fmt.Sprintf("%s/%d", d.PCI, d.Partition)
	}
	return cmp.Or(serial, d.PCI)
}

// Identity holds the values that do not change while the driver is loaded. The driver keeps
// them in memory, so reading them does not wake the GPU.
type Identity struct {
	UUID   string // see Device.UUID
	Serial string // "" if the board has none
	VBIOS  string
	GFX    string // see Device.GFX
	// ProductNumber is the board's, if its memory has one (Instinct).
	ProductNumber string
	NUMANode      string // "0", "" if unknown
	Model         string // name from the driver; "" if only PCI ids identify it
}

func readIdentity(root host.Root, at func(string), d Device) Identity {
	read := func(name string) string {
		at(name)
		b, err := sysfile.ReadOnce(root.Path(path.Join(d.Dir, name)))
		if err != nil {
			return ""
		}
		return sysfile.Clean(b)
	}
	serial := read("serial_number")
	id := Identity{UUID: d.UUID(serial), Serial: serial, GFX: d.GFX, VBIOS: read("vbios_version"),
		ProductNumber: read("product_number"), NUMANode: read("numa_node")}
	if id.NUMANode == "-1" {
		id.NUMANode = ""
	}
	return id
}

// Devices lists the GPUs of the driver amdgpu by PCI address, from the class drm in sysfs.
// root is the folder that replaces "/", for a copy of a machine's files; "" is this machine.
// It returns the error of reading /sys/class/drm, and leaves out a GPU with an unreadable
// uevent. In a container it also lists GPUs of the host that were not passed through.
func Devices(root string) ([]Device, error) {
	r := host.Root(root)
	entries, err := r.ReadDir("/sys/class/drm")
	if err != nil {
		return nil, err
	}
	var out []Device
	for _, e := range entries {
		if !isCard(e.Name()) {
			continue
		}
		dir := path.Join("/sys/class/drm", e.Name(), "device")
		if to, err := r.Resolve(dir); err == nil {
			dir = to
		}
		if d, ok := readDevice(r, dir); ok {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Device) int {
		return cmp.Or(cmp.Compare(len(a.PCI), len(b.PCI)), cmp.Compare(a.PCI, b.PCI))
	})
	return out, nil
}

// isCard reports whether name is a card ("card12") and not its connector ("card12-DP-1").
func isCard(name string) bool {
	digits, ok := strings.CutPrefix(name, "card")
	_, err := strconv.ParseUint(digits, 10, 20)
	return ok && err == nil
}

// readDevice reads uevent, which holds the identity of a PCI device in one file (pci_uevent
// in drivers/pci/pci-driver.c).
func readDevice(root host.Root, dir string) (Device, bool) {
	b, err := sysfile.ReadOnce(root.Path(path.Join(dir, "uevent")))
	if err != nil {
		return Device{}, false
	}
	d, ok := parseUevent(sysfile.Clean(b))
	d.Dir, d.Own = dir, dir
	if b, err := sysfile.ReadOnce(root.Path(path.Join(dir, "unique_id"))); err == nil {
		d.UniqueID = sysfile.Clean(b)
	}
	return d, ok
}

// parseUevent returns false unless the device is an AMD GPU that amdgpu drives.
func parseUevent(text string) (Device, bool) {
	v := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		v[key] = value
	}
	ids := strings.ToLower(v["PCI_ID"])
	return Device{PCI: v["PCI_SLOT_NAME"], IDs: ids}, v["DRIVER"] == "amdgpu" && strings.HasPrefix(ids, "1002:")
}
