package monitor

import (
	"cmp"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/amd/amdreader"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

type amdVendor struct{}

func (amdVendor) reader(m *Monitor, d gpu.Slot) reader {
	return amdreader.New(m.root, d, m.limit, m.now)
}

// driverVersion returns the version of AMD's driver package if its module is loaded.
func (amdVendor) driverVersion(r host.Root) string {
	b, _ := sysfile.ReadOnce(r.Path("/sys/module/amdgpu/version"))
	return sysfile.Clean(b)
}

// captured lists the cards of the driver amdgpu. Their names come from the inventory, which
// lists them as unusable.
func (amdVendor) captured(root host.Root, inv gpu.Inventory) ([]gpu.Slot, error) {
	devices, err := amdgpu.Devices(string(root))
	names := map[string]string{}
	for _, l := range inv.UnusableOf(gpu.AMD) {
		names[l.PCI] = l.Model
	}
	for _, g := range inv.GPUsOf(gpu.AMD) {
		names[g.PCI] = g.Model
	}
	var out []gpu.Slot
	for i, d := range devices {
		out = append(out, gpu.Slot{Vendor: gpu.AMD, Index: i, PCI: d.PCI, UniqueID: d.UniqueID,
			Model: cmp.Or(names[d.PCI], "AMD GPU "+d.IDs), Sysfs: d.Dir})
	}
	return out, err
}
