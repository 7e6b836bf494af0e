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

// AMD returns the device of a GPU as package amdgpu reads it.
func AMD(s gpu.Slot) amdgpu.Device {
	return amdgpu.Device{Dir: s.Sysfs, Own: s.Own(), PCI: s.PCI, Partition: s.Partition, UniqueID: s.UniqueID,
		GFX: s.GFX}
}

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
