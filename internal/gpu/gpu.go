// Package gpu finds the GPUs that this machine or container may use. It reads sysfs,
// /proc/devices and the nodes below /dev. It uses no vendor tool and no library, never
// opens a node, changes nothing, and treats all vendors alike. The use of a GPU is judged
// by package amd.
//
// sysfs shows a container every GPU of its host, so a GPU there may belong to others. A GPU
// is usable if sysfs shows its PCI vendor and class, its driver is bound, and its render
// node is in this /dev with the device number from sysfs. Every other GPU is listed with
// the reason.
package gpu

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/pci"
)

// GPU describes a usable GPU, or one of its partitions.
type GPU struct {
	Vendor   Vendor
	PCI      string // "0000:03:00.0"; a partition has its parent's address
	DeviceID uint16 // PCI device id, 0x744c
	Revision uint8  // PCI revision, 0xcc; distinguishes models with one device id
	Class    uint32 // PCI class with subclass and interface, 0x030000
	Driver   string // amdgpu, nvidia or nouveau
	Name     string // never empty; see names.go for its sources

	Card   *host.Node // /dev/dri/cardN if it was passed through too, otherwise nil
	Render host.Node  // /dev/dri/renderDN

	// UniqueID has 16 lower-case hex digits and is the same in every slot and machine. It
	// is "" if the hardware has none, and on a partition if the kernel gives all partitions
	// the id of the whole GPU. So no two GPUs share an id.
	UniqueID  string
	Partition int    // 0 for a whole GPU or for the first partition
	GFX       string // "gfx1100"; "" if KFD does not report it
	KFDNode   int    // number of the KFD topology node, or -1

	Sysfs string // directory of the PCI device below /sys/devices
	// DRM is the directory of the nodes: /sys/class/drm/cardN (or renderDN), for a
	// partition /sys/devices/platform/amdgpu_xcp_N (or .N).
	DRM string
}

// Slot returns a name that is unique as long as the machine runs: the PCI address,
// "0000:03:00.0", with the number of each partition after the first, "0000:03:00.0-1".
func Slot(pci string, partition int) string {
	if partition == 0 {
		return pci
	}
	return pci + "-" + strconv.Itoa(partition)
}

// Inventory holds the result of Discover.
type Inventory struct {
	GPUs     []GPU      // by PCI address, then render minor
	Unusable []Unusable // by PCI address
	KFD      KFD        // /dev/kfd
}

// Of returns the vendor's GPUs in their stable order. An operator writes the index of this
// list into gpu-device-ids.
func (i Inventory) Of(v Vendor) []GPU {
	var of []GPU
	for _, g := range i.GPUs {
		if g.Vendor == v {
			of = append(of, g)
		}
	}
	return of
}

// UnusableOf returns the vendor's unusable GPUs.
func (i Inventory) UnusableOf(v Vendor) []Unusable {
	var of []Unusable
	for _, l := range i.Unusable {
		if l.Vendor == v {
			of = append(of, l)
		}
	}
	return of
}

func (i *Inventory) sort() {
	slices.SortStableFunc(i.GPUs, func(a, b GPU) int {
		return cmp.Or(pci.Compare(a.PCI, b.PCI), cmp.Compare(a.Render.Minor, b.Render.Minor),
			cmp.Compare(a.Partition, b.Partition))
	})
	slices.SortStableFunc(i.Unusable, func(a, b Unusable) int {
		return cmp.Or(pci.Compare(a.PCI, b.PCI), cmp.Compare(a.Detail, b.Detail))
	})
}

// Style returns a GPU's partitioning as AMD's device plugin and node labeller name it:
// "cpx_nps4" for the kernel's current_compute_partition "CPX" and current_memory_partition
// "NPS4". It returns "" if the GPU cannot be partitioned.
func Style(r host.Root, g GPU) string {
	var compute, memory string
	_ = withFiles(r, func(f files) error {
		compute, memory = changing(f, path.Join(g.Sysfs, "current_compute_partition")),
			changing(f, path.Join(g.Sysfs, "current_memory_partition"))
		return nil
	})
	if compute == "" || memory == "" {
		return ""
	}
	return strings.ToLower(compute + "_" + memory)
}
