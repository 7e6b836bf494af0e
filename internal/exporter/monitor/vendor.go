package monitor

import (
	"cmp"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// vendor reads the GPUs of one vendor.
type vendor interface {
	// reader returns a new reader of the device.
	reader(m *Monitor, d gpu.Slot) reader
	// driverVersion returns the version of the vendor's own driver, "" if the driver is part
	// of the kernel.
	driverVersion(r host.Root) string
	// captured lists the GPUs in a capture of sysfs.
	captured(root host.Root, inv gpu.Inventory) ([]gpu.Slot, error)
}

// vendors registers the readers of all gpu.Vendors.
var vendors = map[gpu.Vendor]vendor{gpu.AMD: amdVendor{}, gpu.NVIDIA: nvidiaVendor{}}

// driverVersions returns the driver version of each vendor among the devices. The kernel's
// release is the version of a driver that is part of the kernel.
func driverVersions(r host.Root, devices []gpu.Slot) map[gpu.Vendor]string {
	out := map[gpu.Vendor]string{}
	for _, d := range devices {
		if _, known := out[d.Vendor]; !known {
			out[d.Vendor] = cmp.Or(vendors[d.Vendor].driverVersion(r), kernelRelease(r))
		}
	}
	return out
}

func kernelRelease(r host.Root) string {
	b, _ := sysfile.ReadOnce(r.Path("/proc/sys/kernel/osrelease"))
	return sysfile.Clean(b)
}
