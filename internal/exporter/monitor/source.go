package monitor

import (
	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
)

// Source lists the GPUs to report on, by Index, and whether programs can compute on each,
// nil if that is unknown. It is called when the lists of DRM devices and nodes have changed,
// and once a minute.
type Source func() ([]gpu.Slot, []reading.Compute, error)

// All lists the GPUs of all vendors, as Of does.
func All(root host.Root) Source { return Of(root, gpu.Vendors()...) }

// Of lists the GPUs of vendors that are passed through to the machine below root. sysfs
// shows a container all GPUs of its host, but the others belong to other machines. Each has
// its index among the GPUs of its vendor, as gpu-device-ids takes it.
//
// A root without /dev is a bare capture of sysfs, where nothing is passed through.
func Of(root host.Root, of ...gpu.Vendor) Source {
	return func() (devices []gpu.Slot, compute []reading.Compute, err error) {
		inv, err := gpu.Discover(root)
		if err != nil {
			return nil, nil, err
		}
		bare := !root.Exists("/dev")
		for _, v := range of {
			if bare {
				captured, err := vendors[v].captured(root, inv)
				if err != nil {
					return nil, nil, err
				}
				devices = append(devices, captured...)
				continue
			}
			for _, g := range inv.GPUsOf(v) {
				devices, compute = append(devices, g.Slot), append(compute, computeOf(inv, g))
			}
		}
		return devices, compute, nil
	}
}

// computeOf reports whether programs can compute on a GPU. It is unknown for GPUs that do
// not compute through KFD.
func computeOf(inv gpu.Inventory, g gpu.GPU) (c reading.Compute) {
	if g.Vendor.Has(gpu.KFDNode) {
		c.Ready, c.Obstacle = amdgpu.Known(1), inv.Obstacle(g)
	}
	if c.Obstacle != "" {
		c.Ready = amdgpu.Known(0)
	}
	return c
}
