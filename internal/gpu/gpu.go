// Package gpu finds the GPUs that this machine or container may use. Its only
// sources are sysfs, /proc/devices and the nodes below /dev: no vendor tool,
// no library, no node is ever opened. It is neutral to vendors, changes
// nothing, and does not judge what a GPU is good for: that is package rocm's.
//
// sysfs shows a container every GPU of its host, so seeing one there says
// nothing. A GPU counts when its PCI vendor and class are read from sysfs, its
// driver is bound, and its render node is in this /dev with the device number
// that sysfs gives. Each one that does not count is kept with the reason.
package gpu

import (
	"cmp"
	"slices"
	"strconv"

	"concourse-ci-machine/internal/base/host"
)

// GPU is one GPU that counts, or one partition of it.
type GPU struct {
	Vendor   Vendor
	PCI      string // "0000:03:00.0"; a partition has its parent's address
	DeviceID uint16 // PCI device id, 0x744c
	Revision uint8  // PCI revision, 0xcc; tells models of one device id apart
	Class    uint32 // PCI class with subclass and interface, 0x030000
	Driver   string // amdgpu, nvidia or nouveau
	Name     string // never empty; see names.go for where it comes from

	Card   *host.Node // /dev/dri/cardN where that was passed through too, else nil
	Render host.Node  // /dev/dri/renderDN

	// UniqueID has 16 lower-case hex digits and is the same in every slot and
	// machine. "" where the hardware has none, and on a partition whose kernel
	// gives all partitions the id of the whole, so that no two GPUs share one.
	UniqueID  string
	Partition int    // 0 for a whole GPU or for the first partition
	GFX       string // "gfx1100"; "" where KFD does not tell
	KFDNode   int    // number of the KFD topology node, -1 when none

	Sysfs string // directory of the PCI device below /sys/devices
	// DRM is the directory that the nodes came from: /sys/class/drm/cardN (or
	// renderDN), for a partition /sys/devices/platform/amdgpu_xcp_N (or .N).
	DRM string
}

// Slot names the place of a GPU, which no other one has as long as the machine
// runs: its PCI address, "0000:03:00.0", and for a partition after the first one
// its number, "0000:03:00.0-1".
func Slot(pci string, partition int) string {
	if partition == 0 {
		return pci
	}
	return pci + "-" + strconv.Itoa(partition)
}

// Inventory is everything that Discover found.
type Inventory struct {
	GPUs []GPU  // those that count, by PCI address, then render minor
	Left []Left // those that do not, by PCI address
	KFD  KFD    // /dev/kfd
}

// Of returns the vendor's GPUs in their stable order. The place in this list
// is the index that an operator writes into gpu-device-ids.
func (i Inventory) Of(v Vendor) []GPU {
	var of []GPU
	for _, g := range i.GPUs {
		if g.Vendor == v {
			of = append(of, g)
		}
	}
	return of
}

// LeftOf returns the vendor's GPUs that do not count.
func (i Inventory) LeftOf(v Vendor) []Left {
	var of []Left
	for _, l := range i.Left {
		if l.Vendor == v {
			of = append(of, l)
		}
	}
	return of
}

func (i *Inventory) sort() {
	slices.SortStableFunc(i.GPUs, func(a, b GPU) int {
		return cmp.Or(compareAddresses(a.PCI, b.PCI), cmp.Compare(a.Render.Minor, b.Render.Minor),
			cmp.Compare(a.Partition, b.Partition))
	})
	slices.SortStableFunc(i.Left, func(a, b Left) int {
		return cmp.Or(compareAddresses(a.PCI, b.PCI), cmp.Compare(a.Detail, b.Detail))
	})
}
