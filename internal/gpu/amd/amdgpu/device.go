// Package amdgpu reads one AMD GPU: from sysfs, as the amdgpu driver shows it,
// into a State whose fields are known or not. It knows no metric, no HTTP and no
// health: whoever tells of a GPU reads this one value.
//
// It is made to be a good neighbour to the machine. It writes nothing, never wakes a
// GPU that runtime power management has suspended, never reads xgmi_error (reading
// clears it) or pcie_bw (each read sleeps for a second in the kernel), and keeps a
// file open between readings. A value that the hardware does not have is not known:
// it is never 0 and never a firmware's 65535.
package amdgpu

import "concourse-ci-machine/internal/gpu"

// Device is one GPU, or one partition of it.
type Device struct {
	Vendor    gpu.Vendor
	Index     int    // place in the stable order, from 0
	PCI       string // "0000:03:00.0"; partitions have their parent's address
	Partition int    // 0 for a whole GPU or the first partition
	UniqueID  string // 16 hex digits, "" where the hardware has none
	Name      string
	GFX       string // "gfx1100", "" where it is not known
	Dir       string // machine path of the PCI device's directory in sysfs
	Own       string // the same, or that of the partition's own device; "" where it has none
}
