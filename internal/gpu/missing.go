package gpu

import "path"

// addMissingPartitions adds the partitions in KFD without a DRM device to the unusable
// GPUs. found holds the render minors of the partitions' devices.
func (d *discovery) addMissingPartitions(nodes []topologyNode, found map[uint32]bool) {
	for _, g := range d.inv.GPUs {
		found[g.Render.Minor] = true
	}
	for _, n := range nodes {
		f, ok := d.functions[n.address()]
		if !ok || f.driver != amdDriver || found[n.render] || rank(nodes, n) == 0 {
			continue // the first partition belongs to the GPU, which was judged
		}
		d.addUnusable(f, NoRenderNode, "partition %d: KFD gives it renderD%d, and no DRM device has that",
			rank(nodes, n), n.render)
	}
}

// partitionsOf maps the modes of a GPU to the number of its partitions. It lacks CPX, in which each
// compute die is a partition.
var partitionsOf = map[string]int{"DPX": 2, "TPX": 3, "QPX": 4}

// addAbsentPartitions adds the partitions that a GPU's mode has, and neither KFD nor DRM. In CPX a
// GPU has as many as the others of its model.
func (d *discovery) addAbsentPartitions(nodes []topologyNode) {
	if len(d.partitions) == 0 {
		return
	}
	seen, modes, most := map[string]map[int]bool{}, map[string]string{}, map[uint16]int{}
	for _, n := range nodes {
		f, ok := d.functions[n.address()]
		if !ok || f.driver != amdDriver {
			continue
		}
		if seen[f.addr] == nil {
			seen[f.addr] = map[int]bool{}
			modes[f.addr] = changing(d.root, path.Join(f.dir, "current_compute_partition"))
		}
		seen[f.addr][max(n.partition, rank(nodes, n))] = true
		if modes[f.addr] == "CPX" {
			most[f.device] = max(most[f.device], len(seen[f.addr]))
		}
	}
	for addr, has := range seen {
		f := d.functions[addr]
		want := partitionsOf[modes[addr]]
		if modes[addr] == "CPX" {
			want = most[f.device]
		}
		for n := range want {
			if !has[n] {
				d.addUnusable(f, NoRenderNode, "partition %d of %d in %s: its driver made no device for it%s", n, want,
					modes[addr], d.whyAbsent())
			}
		}
	}
}

// drmLimit is the number of cards for which older kernels have numbers (DRM_MINOR_LIMIT).
const drmLimit = 64

// whyAbsent returns the cause if it is known.
func (d *discovery) whyAbsent() string {
	cards := 0
	entries, _ := d.root.ReadDir(drmClass)
	for _, e := range entries {
		if kind, _, ok := minorOf(e.Name()); ok && kind == "card" {
			cards++
		}
	}
	if cards < drmLimit {
		return "; see: sudo dmesg | grep amdgpu"
	}
	return ", because this kernel has numbers for 64 cards, and a display of the server takes one"
}
