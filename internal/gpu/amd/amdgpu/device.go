// Package amdgpu reads one AMD GPU from amdgpu's files in sysfs into a State, with fields
// that are known or unknown. It exports no metrics, serves no HTTP and judges no health.
//
// It must not disturb the machine. It writes nothing and never wakes a suspended GPU. It
// never reads xgmi_error, because reading clears it, or pcie_bw, because each read sleeps
// for a second in the kernel. It keeps files open between readings. A value that the
// hardware lacks is unknown: never 0 and never a firmware's 65535.
package amdgpu

import (
	"fmt"
	"path"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/sysfile"
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
