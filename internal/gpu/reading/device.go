package reading

import (
	"fmt"
	"time"

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

// Identity holds the values that do not change while the driver is loaded. The driver keeps
// them in memory, so reading them does not wake the GPU.
type Identity struct {
	UUID   string // see UUID
	Serial string // "" if the board has none
	VBIOS  string
	// ProductNumber is the board's, if its memory has one (Instinct).
	ProductNumber string
	NUMANode      string // "0", "" if unknown
	Model         string // name from the driver; "" if only PCI ids identify it
}

// UUID identifies the card permanently if possible: GPU-<unique_id> as in HIP, otherwise
// the board's serial number, otherwise the PCI address, which identifies the slot. A
// partition without an id gets the address and its number, because all partitions share the
// serial number.
func UUID(d Device, serial string) string {
	switch {
	case d.UniqueID != "":
		return d.ID()
	case d.Partition > 0:
		return fmt.Sprintf("%s/%d", d.PCI, d.Partition)
	case serial != "":
		return serial
	}
	return d.PCI
}

// LookEvery is the longest time without checking directories by path.
const LookEvery = time.Minute
