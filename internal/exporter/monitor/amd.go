package monitor

import (
	"cmp"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/amd/amdreader"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

type amdVendor struct{}

func (amdVendor) reader(m *Monitor, d reading.Device) reader {
	return amdreader.New(m.root, d, m.limit, m.now)
}

// driverVersion returns the version of AMD's driver package if its module is loaded.
func (amdVendor) driverVersion(r host.Root) string {
	b, _ := sysfile.ReadOnce(r.Path("/sys/module/amdgpu/version"))
	return sysfile.Clean(b)
}

func (amdVendor) userNode(host.Root, reading.Device) (node string, ok bool) { return "", true }

// captured lists the cards of the driver amdgpu. Their names come from the inventory, which
// lists them as unusable.
func (amdVendor) captured(root host.Root, inv gpu.Inventory) ([]reading.Device, error) {
	devices, err := amdgpu.Devices(string(root))
	names := map[string]string{}
	for _, l := range inv.UnusableOf(gpu.AMD) {
		names[l.PCI] = l.Name
	}
	for _, g := range inv.GPUsOf(gpu.AMD) {
		names[g.PCI] = g.Name
	}
	var out []reading.Device
	for i, d := range devices {
		slot := gpu.Slot{Vendor: gpu.AMD, Index: i, PCI: d.PCI, UniqueID: d.UniqueID}
		name := cmp.Or(names[d.PCI], "AMD GPU "+d.IDs)
		out = append(out, reading.Device{Slot: slot, Name: name, Dir: d.Dir, Own: d.Own})
	}
	return out, err
}
