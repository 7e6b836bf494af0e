package monitor

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/reading"
	"concourse-ci-machine/internal/gpu/sysfile"
)

// Source lists the GPUs to report on, by Index. It is called when the lists of DRM devices
// and nodes have changed, and once a minute.
type Source func() ([]reading.Device, error)

// AMD lists the GPUs of AMD that are passed through to the machine below root. sysfs shows
// a container all GPUs of its host, but the others belong to other machines. Each has its
// index among the GPUs of its vendor, as gpu-device-ids takes it.
func AMD(root host.Root) Source { return sourceOf(root, gpu.AMD) }

// NVIDIA lists the GPUs of NVIDIA as AMD does.
func NVIDIA(root host.Root) Source { return sourceOf(root, gpu.NVIDIA) }

// All lists the GPUs of all vendors as AMD does.
func All(root host.Root) Source { return sourceOf(root, gpu.Vendors()...) }

// sourceOf lists the GPUs of vendors. A root without /dev is a bare capture of sysfs, where
// nothing is passed through: all GPUs of the amdgpu driver are listed.
func sourceOf(root host.Root, vendors ...gpu.Vendor) Source {
	return func() ([]reading.Device, error) {
		inv, err := gpu.Discover(root)
		if err != nil {
			return nil, err
		}
		if !root.Exists("/dev") && vendors[0] == gpu.AMD {
			return captured(root, inv)
		}
		var out []reading.Device
		for _, v := range vendors {
			for _, g := range inv.Of(v) {
				out = append(out, reading.Device{Slot: g.Slot, Name: g.Name, Dir: g.Sysfs, Own: owner(g)})
			}
		}
		return out, nil
	}
}

// owner returns the device directory above the GPU's own DRM nodes. Each partition after
// the first has a platform device (amdxcp).
func owner(g gpu.GPU) string {
	if g.Partition > 0 {
		return g.DRM
	}
	return g.Sysfs
}

// captured lists the cards of a capture by PCI address. Their names come from the
// inventory, which lists them as unusable.
func captured(root host.Root, inv gpu.Inventory) ([]reading.Device, error) {
	entries, err := root.ReadDir("/sys/class/drm")
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, l := range inv.UnusableOf(gpu.AMD) {
		names[l.PCI] = l.Name
	}
	for _, g := range inv.Of(gpu.AMD) {
		names[g.PCI] = g.Name
	}
	var out []reading.Device
	for _, e := range entries {
		if !isCard(e.Name()) {
			continue
		}
		dir := path.Join("/sys/class/drm", e.Name(), "device")
		if to, err := root.Resolve(dir); err == nil {
			dir = to
		}
		if d, ok := capturedDevice(root, dir); ok {
			d.Name = cmp.Or(names[d.PCI], d.Name)
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b reading.Device) int {
		return cmp.Or(cmp.Compare(len(a.PCI), len(b.PCI)), cmp.Compare(a.PCI, b.PCI))
	})
	for i := range out {
		out[i].Index = i
	}
	return out, nil
}

// isCard reports whether name is a card ("card12") and not its connector ("card12-DP-1").
func isCard(name string) bool {
	digits, ok := strings.CutPrefix(name, "card")
	_, err := strconv.ParseUint(digits, 10, 20)
	return ok && err == nil
}

// capturedDevice reads uevent, which holds the identity of a PCI device in one file
// (pci_uevent in drivers/pci/pci-driver.c).
func capturedDevice(root host.Root, dir string) (reading.Device, bool) {
	b, err := sysfile.ReadOnce(root.Path(path.Join(dir, "uevent")))
	if err != nil {
		return reading.Device{}, false
	}
	d, ok := parseUevent(sysfile.Clean(b))
	d.Dir, d.Own = dir, dir
	if b, err := sysfile.ReadOnce(root.Path(path.Join(dir, "unique_id"))); err == nil {
		d.UniqueID = sysfile.Clean(b)
	}
	return d, ok
}

// parseUevent returns false unless the device is an AMD GPU that amdgpu drives.
func parseUevent(text string) (reading.Device, bool) {
	v := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		v[key] = value
	}
	vendor, id, _ := strings.Cut(v["PCI_ID"], ":")
	if v["DRIVER"] != "amdgpu" || vendor != "1002" {
		return reading.Device{}, false
	}
	return reading.Device{Slot: gpu.Slot{Vendor: gpu.AMD, PCI: v["PCI_SLOT_NAME"]}, Name: "AMD GPU 1002:" + strings.ToLower(id)}, true
}
