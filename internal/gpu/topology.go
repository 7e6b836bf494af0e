package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
)

const topologyNodes = "/sys/class/kfd/kfd/topology/nodes"

// topologyNode holds the `properties` of a GPU's KFD topology node
// (drivers/gpu/drm/amd/amdkfd/kfd_topology.c, node_show).
type topologyNode struct {
	number    int
	render    uint32 // drm_render_minor: 128 and above, 0 for a CPU
	domain    uint32 // PCI domain
	location  uint32 // bus<<8 | device<<3 | function; bits 28-31: partition
	partition int    // from location; 0 if the kernel does not report it
	target    uint64 // gfx_target_version
	uniqueID  string // of the partition, in kernels that distinguish partitions
}

// address returns the address of the node's GPU.
func (n topologyNode) address() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", n.domain, n.location>>8&0xff, n.location>>3&0x1f, n.location&7)
}

// topology holds the GPU nodes that this machine may read. In a container the kernel
// rejects (EPERM) the nodes of other tenants, with a render node that the device cgroup
// does not allow. Skipping them is correct.
type topology struct {
	nodes    []topologyNode
	entries  int  // of the list, with the nodes of processors
	rejected int  // nodes that the kernel rejected
	unknown  bool // a node may exist, and could not be read for another reason
}

// whole reports whether KFD does not know a GPU without a node, such as one of GCN 1.
func (t topology) whole() bool { return t.entries > 0 && t.rejected == 0 && !t.unknown }

// closed reports whether programs of this machine have no KFD node of a GPU that is not in
// t.nodes. A machine that reads the node of one GPU reads those of all GPUs that it may open.
// If it reads none, the rejected nodes must be of the foreign GPUs, which were not passed
// through. A foreign GPU with partitions has several nodes: then nothing is known. An empty list
// is not of a machine: KFD lists processors too, and writes the list again when a GPU comes.
func (t topology) closed(foreign int) bool {
	return t.entries > 0 && !t.unknown && (len(t.nodes) > 0 || t.rejected <= foreign)
}

// readTopology reads the nodes of the GPUs.
func readTopology(r files) (t topology) {
	entries, err := r.ReadDir(topologyNodes)
	if err != nil {
		return topology{unknown: true}
	}
	t.entries = len(entries)
	for _, e := range entries {
		number, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := read(r, path.Join(topologyNodes, e.Name(), "properties"))
		switch n := parseProperties(text); {
		case errors.Is(err, errHangs) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV):
			t.unknown = true // a reset of the GPU, or a change of the list
		case err != nil:
			t.rejected++
		case n.render != 0:
			n.number = number
			t.nodes = append(t.nodes, n)
		}
	}
	return t
}

// parseProperties reads "name value" lines with decimal values. A missing or malformed
// value is 0.
func parseProperties(text string) (n topologyNode) {
	for line := range strings.Lines(text) {
		key, val, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "drm_render_minor":
			n.render = number32(val)
		case "domain":
			n.domain = number32(val)
		case "location_id":
			n.location = number32(val)
			n.partition = int(n.location >> 28)
		case "gfx_target_version":
			n.target, _ = strconv.ParseUint(val, 10, 64)
		case "unique_id":
			n.uniqueID = parseUniqueID(val, 10)
		}
	}
	return n
}

func number32(s string) uint32 {
	v, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(v)
}

// gfxName converts KFD's gfx_target_version, major*10000 + minor*100 + stepping in decimal,
// to the name that compilers use, in which minor and stepping are hex digits: 110000 is
// gfx1100, 90010 is gfx90a. 0 gives "".
func gfxName(target uint64) string {
	if target == 0 {
		return ""
	}
	return fmt.Sprintf("gfx%d%x%x", target/10000, target/100%100, target%100)
}

// fromTopology adds KFD's values to the GPUs that have one, and adds their partitions.
func (d *discovery) fromTopology(t topology) {
	nodes, byRender := t.nodes, map[uint32]topologyNode{}
	parts := map[string]int{} // number of nodes by PCI address
	for _, n := range nodes {
		byRender[n.render] = n
		parts[n.address()]++
	}
	unlisted := func(g GPU) bool {
		_, named := byRender[g.Render.Minor]
		return g.Vendor.Has(KFDNode) && !named && parts[g.PCI] == 0
	}
	d.inv.GPUs = slices.DeleteFunc(d.inv.GPUs, func(g GPU) bool {
		if !t.whole() || !unlisted(g) {
			return false
		}
		d.addUnusable(d.functions[g.PCI], NoCompute, "%s", NoCompute.Text())
		return true
	})
	foreign := 0
	for _, l := range d.inv.Unusable {
		if l.Vendor.Has(KFDNode) && l.Reason == NotPassedThrough {
			foreign++
		}
	}
	for i := range d.inv.GPUs {
		g := &d.inv.GPUs[i]
		g.NotInKFD = unlisted(*g) && t.closed(foreign)
		n, ok := byRender[g.Render.Minor]
		if g.Vendor.Has(KFDNode) && ok && sameSlot(n, g.PCI) {
			if n.fill(g); parts[n.address()] > 1 {
				n.fillUniqueID(g)
			}
		}
	}
	found := map[uint32]bool{}
	for _, dev := range d.partitions {
		_, minor, _ := minorOf(dev.render)
		found[minor] = true
		n, ok := byRender[minor]
		if !ok {
			continue // a GPU has 7 of these in any mode; KFD lists only those in use
		}
		f, ok := d.functions[n.address()]
		if !ok { // the first kernels with partitions encoded them in the function's bits
			n.partition = int(n.location & 7)
			n.location &^= 7
			if f, ok = d.functions[n.address()]; !ok {
				continue
			}
		}
		if f.driver != amdDriver {
			continue
		}
		if g := d.addUsable(f, dev); g != nil {
			g.DRM = dev.dir
			g.Partition = n.partition
			if g.Partition == 0 {
				g.Partition = rank(nodes, n)
			}
			n.fill(g)
			n.fillUniqueID(g)
		}
	}
	d.addMissingPartitions(nodes, found)
	if t.whole() {
		d.addAbsentPartitions(nodes)
	}
}

// fill copies the node's values into its GPU.
func (n topologyNode) fill(g *GPU) {
	g.KFDNode, g.GFX, g.UniqueID = n.number, gfxName(n.target), cmp.Or(g.UniqueID, n.uniqueID)
}

// fillUniqueID replaces the GPU's unique id with the partition's.
func (n topologyNode) fillUniqueID(g *GPU) { g.UniqueID = cmp.Or(n.uniqueID, g.UniqueID) }

// sameSlot rejects a topology that numbers render minors differently than DRM. Old kernels
// report neither domain nor function reliably.
func sameSlot(n topologyNode, address string) bool {
	a, _ := pci.Parse(address)
	return n.location == 0 || n.location>>8&0xff == uint32(a.Bus) && n.location>>3&0x1f == uint32(a.Device)
}

// rank returns the partition's position in its GPU. Partitions get their render minors in
// order.
func rank(nodes []topologyNode, of topologyNode) (place int) {
	for _, n := range nodes {
		if n.address() == of.address() && n.render < of.render {
			place++
		}
	}
	return place
}

// clearDuplicateIDs keeps an id only at its first GPU: older kernels give each partition
// the id of the whole GPU.
func (i *Inventory) clearDuplicateIDs() {
	seen := map[string]bool{}
	for k := range i.GPUs {
		g := &i.GPUs[k]
		if seen[g.UniqueID] {
			g.UniqueID = ""
		}
		seen[g.UniqueID] = true
	}
}
