package monitor

import (
	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
)

// Found describes a GPU to report on.
type Found struct {
	reading.Device
	Compute reading.Compute
}

// Source lists the GPUs to report on, by Index. It is called when the lists of DRM devices
// and nodes have changed, and once a minute.
type Source func() ([]Found, error)

// All lists the GPUs of all vendors, as Of does.
func All(root host.Root) Source { return Of(root, gpu.Vendors()...) }

// Of lists the GPUs of vendors that are passed through to the machine below root. sysfs
// shows a container all GPUs of its host, but the others belong to other machines. Each has
// its index among the GPUs of its vendor, as gpu-device-ids takes it.
//
// A root without /dev is a bare capture of sysfs, where nothing is passed through.
func Of(root host.Root, of ...gpu.Vendor) Source {
	return func() ([]Found, error) {
		inv, err := gpu.Discover(root)
		if err != nil {
			return nil, err
		}
		bare := !root.Exists("/dev")
		var out []Found
		for _, v := range of {
			if bare {
				devices, err := vendors[v].captured(root, inv)
				if err != nil {
					return nil, err
				}
				for _, d := range devices {
					out = append(out, Found{Device: d})
				}
				continue
			}
			for _, g := range inv.GPUsOf(v) {
				out = append(out, Found{reading.DeviceOf(g), computeOf(inv, g)})
			}
		}
		return out, nil
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
