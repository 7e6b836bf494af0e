package monitor

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/amd/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

type amdVendor struct{}

func (amdVendor) reader(m *Monitor, d reading.Device) reader {
	return amdgpu.NewReader(m.root, d, m.limit, m.now)
}

// driverVersion returns the version of AMD's driver package if its module is loaded.
func (amdVendor) driverVersion(r host.Root) string {
	b, _ := sysfile.ReadOnce(r.Path("/sys/module/amdgpu/version"))
	return sysfile.Clean(b)
}

func (amdVendor) userNode(host.Root, reading.Device) (node string, ok bool) { return "", true }

// captured lists the cards of the driver amdgpu by PCI address. Their names come from the
// inventory, which lists them as unusable.
func (amdVendor) captured(root host.Root, inv gpu.Inventory) ([]reading.Device, error) {
	entries, err := root.ReadDir("/sys/class/drm")
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, l := range inv.UnusableOf(gpu.AMD) {
		names[l.PCI] = l.Name
	}
	for _, g := range inv.GPUsOf(gpu.AMD) {
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
	return reading.Device{Slot: gpu.Slot{Vendor: gpu.AMD, PCI: v["PCI_SLOT_NAME"]},
		Name: "AMD GPU 1002:" + strings.ToLower(id)}, true
}
