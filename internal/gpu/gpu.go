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
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
)

// GPU describes a GPU, or one of its partitions. JSON has the members that identify one and
// the reason of an unusable one.
type GPU struct {
	Slot            // of an unusable GPU Vendor, PCI and Model only; no Vendor for one without usable GPUs
	DeviceID uint16 `json:"-"` // PCI device id, 0x744c
	Revision uint8  `json:"-"` // PCI revision, 0xcc; distinguishes models with one device id
	Class    uint32 `json:"-"` // PCI class with subclass and interface, 0x030000
	Driver   string `json:"-"` // amdgpu, nvidia or nouveau

	// Reason and Detail are why the machine cannot use the GPU, "" if it can. An unusable GPU has
	// none of the members below.
	Reason Reason `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"` // exact cause, one line for people

	Card   *host.Node `json:"-"` // /dev/dri/cardN if it was passed through too, otherwise nil
	Render host.Node  `json:"-"` // /dev/dri/renderDN

	KFDNode  int  `json:"-"` // number of the KFD topology node, or -1
	NotInKFD bool `json:"-"` // KFD gives this machine no node of it; false if that is unknown

	// BesideCard is set for an integrated GPU of a machine with a card. Tasks and containers
	// get it only by name: programs that were built for the card fail on it.
	BesideCard bool `json:"-"`
	// Unsupported is the reason why programs cannot compute on a GPU that works, "" if they can.
	Unsupported string `json:"-"`
}

// BesideCardText is the reason for GPU.BesideCard.
const BesideCardText = "integrated into the processor, beside a card"

// Inventory holds the result of Discover.
type Inventory struct {
	GPUs     []GPU // by PCI address, then render minor
	Unusable []GPU // that sysfs shows and that this machine cannot use, by PCI address
	// Minors are the numbers of all DRM nodes of each vendor's GPUs, also of unusable GPUs and of
	// nodes that are not in this /dev.
	Minors map[Vendor][]uint32
	KFD    KFD // /dev/kfd
}

// GPUsOf returns the vendor's GPUs in their stable order. An operator writes the index of this
// list into gpu-device-ids.
func (i Inventory) GPUsOf(v Vendor) []GPU { return selectVendor(i.GPUs, v) }

// UnusableOf returns the vendor's unusable GPUs.
func (i Inventory) UnusableOf(v Vendor) []GPU { return selectVendor(i.Unusable, v) }

func selectVendor(gpus []GPU, v Vendor) (of []GPU) {
	for _, g := range gpus {
		if g.Vendor == v {
			of = append(of, g)
		}
	}
	return of
}

// Find returns the GPU with an address, see Slot.Address. It returns nil if it is missing.
func (i Inventory) Find(address string) *GPU {
	at := slices.IndexFunc(i.GPUs, func(g GPU) bool { return g.Address() == address })
	if at < 0 {
		return nil
	}
	return &i.GPUs[at]
}

// number sets the numbers and nodes of the GPUs, in their order.
func (i *Inventory) number() {
	next := map[Vendor]int{}
	for k := range i.GPUs {
		g := &i.GPUs[k]
		g.Index, g.Nodes.Render = next[g.Vendor], g.Render.Path
		if next[g.Vendor]++; g.Card != nil {
			g.Nodes.Card = g.Card.Path
		}
	}
}

func (i *Inventory) sort() {
	slices.SortStableFunc(i.GPUs, func(a, b GPU) int {
		return cmp.Or(pci.Compare(a.PCI, b.PCI), cmp.Compare(a.Render.Minor, b.Render.Minor),
			cmp.Compare(a.Partition, b.Partition))
	})
	slices.SortStableFunc(i.Unusable, func(a, b GPU) int {
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
