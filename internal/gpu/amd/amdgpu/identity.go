package amdgpu

import (
	"fmt"
	"path"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/gpu/sysfile"
)

// Identity is what does not change while the driver is loaded. The driver
// keeps all of it in memory: reading it does not wake the GPU.
type Identity struct {
	UUID   string // see UUID
	Serial string // "" where the board does not say
	VBIOS  string
	// ProductNumber is that of the board, where its memory has one (Instinct).
	ProductNumber string
	NUMANode      string // "0", "" where the machine does not tell
	Model         string // as the driver calls it; "" where it is known by its PCI ids alone
}

func readIdentity(root host.Root, at func(string), d Device) Identity {
	read := func(name string) string {
		at(name)
		b, err := sysfile.ReadOnce(root.Path(path.Join(d.Dir, name)))
		if err != nil {
			return ""
		}
		return sysfile.Clean(b)
	}
	serial := read("serial_number")
	id := Identity{UUID: UUID(d, serial), Serial: serial, VBIOS: read("vbios_version"),
		ProductNumber: read("product_number"), NUMANode: read("numa_node")}
	if id.NUMANode == "-1" {
		id.NUMANode = ""
	}
	return id
}

// UUID names the card for good where it can: GPU-<unique_id> as HIP has it,
// else the board's serial number, else the PCI address, which names the slot.
// A partition without an id of its own has its parent's address and its
// number, for the serial number is that of all its siblings.
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
