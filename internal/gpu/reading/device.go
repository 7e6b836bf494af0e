// Package reading defines one typed reading of a GPU of any vendor: the State of package
// amdgpu, whether programs can compute, and the hangs that several sources report. Packages
// amdreader and nvidiagpu fill a State, and package health judges it. This package reads no
// files.
package reading

import (
	"time"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// Device is one GPU, or one partition of a GPU, with the folders that its values are in.
type Device struct {
	gpu.Slot
	Name string
	Dir  string // machine path of the PCI device's directory in sysfs
	Own  string // the same, or the directory of the partition's own device; "" without one
}

// DeviceOf returns the device of a GPU.
func DeviceOf(g gpu.GPU) Device {
	own := g.Sysfs
	if g.Partition > 0 {
		own = g.DRM // each partition after the first has a platform device (amdxcp)
	}
	return Device{Slot: g.Slot, Name: g.Name, Dir: g.Sysfs, Own: own}
}

// AMD returns the device as package amdgpu reads it.
func (d Device) AMD() amdgpu.Device {
	return amdgpu.Device{Dir: d.Dir, Own: d.Own, PCI: d.PCI, Partition: d.Partition, UniqueID: d.UniqueID, GFX: d.GFX}
}

// UUID identifies a GPU of any vendor as amdgpu.Device does.
func (d Device) UUID(serial string) string { return d.AMD().UUID(serial) }

// LookEvery is the longest time without checking directories by path.
const LookEvery = time.Minute

// State holds one reading of one GPU of any vendor, in base units. It is not changed after
// the reading.
type State struct {
	amdgpu.State
	Compute Compute
	Hangs   Hangs
}

// Compute reports whether programs can compute on the GPU. Its own files do not show that.
type Compute struct {
	Ready    amdgpu.Number // 0 or 1
	Obstacle string        // cause and fix, for people; "" unless Ready is 0
}
