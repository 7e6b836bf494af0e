package reading

import (
	"fmt"
	"time"

	"concourse-ci-machine/internal/gpu"
)

// Device describes one GPU, or one partition of a GPU.
type Device struct {
	Vendor    gpu.Vendor
	Index     int    // index in the stable order, from 0
	PCI       string // "0000:03:00.0"; partitions have their parent's address
	Partition int    // 0 for a whole GPU or the first partition
	UniqueID  string // 16 hex digits, or ""
	Name      string
	GFX       string // "gfx1100", "" if unknown
	Dir       string // machine path of the PCI device's directory in sysfs
	Own       string // the same, or the directory of the partition's own device; "" without one
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
		return "GPU-" + d.UniqueID
	case d.Partition > 0:
		return fmt.Sprintf("%s/%d", d.PCI, d.Partition)
	case serial != "":
		return serial
	}
	return d.PCI
}

// LookEvery is the longest time without checking directories by path.
const LookEvery = time.Minute
