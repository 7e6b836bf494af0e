package usage

import (
	"path"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// nodes maps nodes to GPUs.
type nodes struct {
	root    host.Root
	devices []gpu.Slot // with users that can be found
	byName  map[string]gpu.Slot
	whole   map[string]gpu.Slot // by PCI address: the GPU, or its first partition
}

// findNodes finds the nodes that users of the GPUs have open.
func findNodes(root host.Root, gpus []gpu.Slot) nodes {
	n := nodes{root: root, byName: map[string]gpu.Slot{}, whole: map[string]gpu.Slot{}}
	for _, d := range gpus {
		if node, ok := vendorNode(root, d); ok {
			if node != "" {
				n.devices, n.byName[node] = append(n.devices, d), d
			}
			continue
		}
		n.devices = append(n.devices, d)
		if first, ok := n.whole[d.PCI]; !ok || d.Partition < first.Partition {
			n.whole[d.PCI] = d
		}
		entries, err := root.ReadDir(path.Join(d.Own(), "drm"))
		if err != nil {
			continue
		}
		for _, e := range entries {
			if drmNode([]byte("/dev/dri/"+e.Name())) != "" {
				n.byName[e.Name()] = d
			}
		}
	}
	return n
}

// find returns the device of a node and whether to query its driver. The device is empty
// for an unknown node, which a container may have under another name. GPUs outside the
// devices are not queried.
func (n nodes) find(name string) (d gpu.Slot, ask bool) {
	d, ours := n.byName[name]
	return d, ours || !strings.HasPrefix(name, nvidiaNode) && !n.root.Exists(path.Join("/sys/class/drm", name))
}

// device returns the device of a client. The driver reports the PCI address, which
// partitions share; the node distinguishes them.
func (n nodes) device(in info, name string) (gpu.Slot, bool) {
	if d, ok := n.byName[name]; ok && (d.PCI == in.pci || strings.HasPrefix(name, nvidiaNode)) {
		return d, true
	}
	d, ok := n.whole[in.pci]
	return d, ok
}

const topology = "/sys/class/kfd/kfd/topology/nodes"

// kfdIDs returns KFD's numbers of the devices (kfd_topology.c). The nodes of forbidden GPUs
// cannot be read.
func (n nodes) kfdIDs() map[string]gpu.Slot {
	ids := map[string]gpu.Slot{}
	entries, err := n.root.ReadDir(topology)
	if err != nil {
		return ids
	}
	for _, e := range entries {
		id := n.text(path.Join(topology, e.Name(), "gpu_id"))
		if v, err := strconv.ParseUint(id, 10, 32); err != nil || v == 0 { // a processor has 0
			continue
		}
		for line := range strings.Lines(n.text(path.Join(topology, e.Name(), "properties"))) {
			if minor, ok := strings.CutPrefix(strings.TrimSpace(line), "drm_render_minor "); ok {
				if d, ok := n.byName["renderD"+minor]; ok {
					ids[id] = d
				}
			}
		}
	}
	return ids
}

func (n nodes) text(p string) string { return readText(n.root, p) }

func readText(root host.Root, p string) string {
	b, err := sysfile.ReadOnce(root.Path(p))
	if err != nil {
		return ""
	}
	return sysfile.Clean(b)
}
