package gpu

import (
	"path"
	"slices"
	"strconv"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// twoDies lists the PCI device ids of the dies of MI250X and MI250: two in a package, each
// a GPU. Only the first die reports the power of the package (aldebaran_ppt.c).
var twoDies = []uint16{0x7408, 0x740c}

// ReadDies returns the other die of the package for each GPU that is such a die, by address.
// The dies of a package have four links over XGMI, those of two packages have at most two
// (amdgpu_amdkfd_get_xgmi_bandwidth_mbytes). A die without a single widest link has no
// entry.
func ReadDies(r host.Root, gpus []GPU) map[string]string {
	found := map[string]string{}
	_ = withFiles(r, func(f files) error {
		widest := map[int]int{} // by KFD node
		for _, g := range gpus {
			if g.KFDNode >= 0 && slices.Contains(twoDies, g.DeviceID) {
				widest[g.KFDNode] = widestLink(f, g.KFDNode)
			}
		}
		for _, g := range gpus {
			for _, other := range gpus {
				to, ok := widest[g.KFDNode]
				back, both := widest[other.KFDNode]
				if ok && both && to == other.KFDNode && back == g.KFDNode {
					found[g.Address()] = other.Address()
				}
			}
		}
		return nil
	})
	return found
}

// widestLink returns the KFD node at the other end of the widest link over XGMI, or -1.
func widestLink(r files, node int) int {
	dir := path.Join(topologyNodes, strconv.Itoa(node), "io_links")
	entries, err := r.ReadDir(dir)
	if err != nil {
		return -1
	}
	to, most := -1, 0
	for _, e := range entries {
		text, err := read(r, path.Join(dir, e.Name(), "properties"))
		if err != nil {
			return -1
		}
		l, ok := parseLink(text)
		switch {
		case !ok || l.kind != linkXGMI || l.from != node:
		case l.bandwidth > most:
			to, most = l.to, l.bandwidth
		case l.bandwidth == most:
			to = -1
		}
	}
	return to
}
