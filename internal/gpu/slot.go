package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Slot identifies a GPU, or one of its partitions. Discover makes each Slot once, and all
// who read, record, lease or show the GPU carry it. Slots are comparable.
type Slot struct {
	Vendor Vendor `json:"-"`
	// Index is the number among the GPUs of the vendor in this unit, which gpu-device-ids
	// takes. It is Missing for a GPU that the unit no longer has.
	Index     int    `json:"-"`
	PCI       string `json:"pci"`                 // "0000:03:00.0"; a partition has its parent's address
	Partition int    `json:"partition,omitempty"` // 0 for a whole GPU or for the first partition
	// UniqueID has 16 lower-case hex digits and is the same in every slot and machine. It
	// is "" if the hardware has none, and on a partition if the kernel gives all partitions
	// the id of the whole GPU. So no two GPUs share an id.
	UniqueID string `json:"unique_id,omitempty"`
	GFX      string `json:"-"`              // architecture, "gfx1100"; "" if KFD does not report it
	Model    string `json:"name,omitempty"` // for people; Discover finds one for every GPU, see names.go
	Nodes    Nodes  `json:"-"`
	Sysfs    string `json:"-"` // directory of the PCI device below /sys/devices
	// DRM is the directory of the nodes: /sys/class/drm/cardN (or renderDN), for a
	// partition /sys/devices/platform/amdgpu_xcp_N (or .N).
	DRM string `json:"-"`
}

// Own returns the directory with the values of this GPU alone. Each partition after the
// first has a platform device (amdxcp).
func (s Slot) Own() string {
	if s.Partition > 0 {
		return s.DRM
	}
	return s.Sysfs
}

// Stored returns the members that a file of the unit stores. The others can change.
func (s Slot) Stored() Slot { return Slot{PCI: s.PCI, Partition: s.Partition, UniqueID: s.UniqueID} }

// Missing is the Index of a GPU that the unit no longer has.
const Missing = -1

// Nodes holds the paths of the device nodes that only this GPU has.
type Nodes struct {
	Render string // /dev/dri/renderDN
	Card   string // /dev/dri/cardN; "" if it was not passed through
}

// Paths returns the paths, the render node first.
func (n Nodes) Paths() []string {
	return slices.DeleteFunc([]string{n.Render, n.Card}, func(p string) bool { return p == "" })
}

// Address returns a name that is unique as long as the machine runs: the PCI address,
// "0000:03:00.0", with the number of each partition after the first, "0000:03:00.0-1".
// Leases, records and descriptions name GPUs by it.
func (s Slot) Address() string {
	if s.Partition == 0 {
		return s.PCI
	}
	return s.PCI + "-" + strconv.Itoa(s.Partition)
}

// MissingSlot returns the slot of a GPU that is missing. Only its address is known.
func MissingSlot(address string) Slot {
	s := Slot{Index: Missing, PCI: address}
	if pci, partition, divided := strings.Cut(address, "-"); divided {
		if n, err := strconv.Atoi(partition); err == nil && n > 0 && strconv.Itoa(n) == partition {
			s.PCI, s.Partition = pci, n
		}
	}
	return s
}

// ID returns the unique id as HIP and CDI descriptions have it, "GPU-<unique id>", and "" if
// the GPU has none.
func (s Slot) ID() string {
	if s.UniqueID == "" {
		return ""
	}
	return "GPU-" + s.UniqueID
}

// String returns the name of the GPU in texts: "GPU 1 (GPU-1a2b, 0000:03:00.0)".
func (s Slot) String() string {
	names := []string{s.ID(), s.PCI}
	if s.Partition > 0 {
		names = append(names, fmt.Sprintf("partition %d", s.Partition))
	}
	switch names = slices.DeleteFunc(names, func(n string) bool { return n == "" }); {
	case s.Index == Missing:
		return "GPU " + s.Address()
	case len(names) == 0:
		return fmt.Sprintf("GPU %d", s.Index)
	}
	return fmt.Sprintf("GPU %d (%s)", s.Index, strings.Join(names, ", "))
}
