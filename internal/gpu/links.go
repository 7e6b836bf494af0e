package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// Link describes the connection of two GPUs.
type Link struct {
	Same bool // partitions of one GPU
	Hops int  // over XGMI, without the processor; 0 without XGMI
	NUMA bool // attached to the same NUMA node
	Hive bool // the driver gives both the same xgmi_hive_id
}

// Links of KFD's topology (drivers/gpu/drm/amd/amdkfd/kfd_crat.h).
const (
	linkXGMI     = 11 // CRAT_IOLINK_TYPE_XGMI
	xgmiOfOne    = 15 // KFD_CRAT_XGMI_WEIGHT: the weight of one hop
	withinSocket = 13 // KFD_CRAT_INTRA_SOCKET_WEIGHT: from a GPU to the processor in its socket
)

// hopsOf converts a weight to a number of hops over XGMI. Between GPUs that share their
// sockets with processors (MI300A), the weight includes the ways inside both sockets: 41 is
// 13 + 15 + 13, one hop.
func hopsOf(weight uint32) int {
	if w := int(weight) - 2*withinSocket; w > 0 && w%xgmiOfOne == 0 {
		return w / xgmiOfOne
	}
	return max(int(weight/xgmiOfOne), 1)
}

// ReadLinks reads the connections between GPUs: [i][j] is the link of gpus[i] and gpus[j],
// equal in both directions. It reads the io_links and p2p_links of KFD's topology, and
// numa_node of the PCI devices. If numa_node is unknown (-1), it uses the nearest processor
// in the topology. An unreadable link is no link, for example in a container the links to
// foreign GPUs.
func ReadLinks(r host.Root, gpus []GPU) [][]Link {
	links, _ := ReadHives(r, gpus)
	return links
}

// ReadHives reads the connections as ReadLinks. unknown has the GPUs with links over XGMI
// that may be incomplete, by address. gpus are all GPUs of the machine.
func ReadHives(r host.Root, gpus []GPU) (links [][]Link, unknown map[string]error) {
	_ = withFiles(r, func(f files) error {
		links, unknown = readHives(f, gpus)
		return nil
	})
	return links, unknown
}

func readHives(r files, gpus []GPU) (links [][]Link, unknown map[string]error) {
	links, unknown = make([][]Link, len(gpus)), map[string]error{}
	ends := make([]end, len(gpus))
	for i, g := range gpus {
		links[i] = make([]Link, len(gpus))
		ends[i] = readEnd(r, g)
		for node := range ends[i].hops {
			if !slices.ContainsFunc(gpus, func(g GPU) bool { return g.KFDNode == node }) {
				ends[i].fail(fmt.Errorf("it has a link to node %d of KFD, which is not a known GPU", node))
			}
		}
		if ends[i].err != nil {
			unknown[g.Address()] = ends[i].err
		}
	}
	for i, g := range gpus {
		for j := range i {
			l := Link{Same: g.PCI == gpus[j].PCI, Hops: nearer(ends[i].hops[gpus[j].KFDNode], ends[j].hops[g.KFDNode]),
				NUMA: sameNUMA(ends[i], ends[j]), Hive: ends[i].hive != "" && ends[i].hive == ends[j].hive}
			links[i][j], links[j][i] = l, l
		}
	}
	return links, unknown
}

// end holds the links of one GPU.
type end struct {
	hops map[int]int // over XGMI, by KFD node
	numa int         // -1: unknown
	cpu  int         // KFD node of the nearest processor; -1: unknown
	hive string      // xgmi_hive_id of amdgpu_xgmi.c; "" without a hive
	err  error       // why hops or hive may be incomplete
}

// fail keeps the first error.
func (e *end) fail(err error) { e.err = cmp.Or(e.err, err) }

func readEnd(r files, g GPU) end {
	e := end{hops: map[int]int{}, numa: -1, cpu: -1}
	if n, err := strconv.Atoi(value(r, path.Join(g.Sysfs, "numa_node"))); err == nil {
		e.numa = max(n, -1)
	}
	hive, err := read(r, path.Join(g.Sysfs, "xgmi_hive_info/xgmi_hive_id"))
	if e.hive = trim(hive); err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.fail(err)
	}
	if g.KFDNode < 0 {
		e.fail(errors.New("it is not in KFD's topology"))
		return e
	}
	nearest := uint32(math.MaxUint32)
	for _, kind := range []string{"io_links", "p2p_links"} {
		dir := path.Join(topologyNodes, strconv.Itoa(g.KFDNode), kind)
		entries, err := r.ReadDir(dir)
		if err != nil {
			if kind == "io_links" { // only these are over XGMI, and each node has the folder
				e.fail(err)
			}
			continue
		}
		for _, entry := range entries {
			text, err := read(r, path.Join(dir, entry.Name(), "properties"))
			if err != nil {
				e.fail(err)
				continue
			}
			l, ok := parseLink(text)
			if !ok {
				e.fail(fmt.Errorf("cannot read link %s of node %d of KFD: an end is missing", entry.Name(), g.KFDNode))
			}
			if !ok || l.from != g.KFDNode || l.to == g.KFDNode {
				continue
			}
			if isProcessor(r, l.to) {
				if l.weight < nearest {
					nearest, e.cpu = l.weight, l.to
				}
			} else if l.kind == linkXGMI {
				e.hops[l.to] = nearer(e.hops[l.to], hopsOf(l.weight))
			}
		}
	}
	return e
}

// kfdLink holds the `properties` of a link (kfd_topology.c, iolink_show).
type kfdLink struct {
	kind, weight uint32
	from, to     int
	bandwidth    int // MB/s, of all links together
}

// parseLink reads "name value" lines with decimal values. ok is false if an end of the link
// is missing.
func parseLink(text string) (l kfdLink, ok bool) {
	l.from, l.to = -1, -1
	for line := range strings.Lines(text) {
		key, val, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(val, 10, 31)
		if err != nil {
			continue
		}
		switch key {
		case "type":
			l.kind = uint32(n)
		case "weight":
			l.weight = uint32(n)
		case "max_bandwidth":
			l.bandwidth = int(n)
		case "node_from":
			l.from = int(n)
		case "node_to":
			l.to = int(n)
		}
	}
	return l, l.from >= 0 && l.to >= 0
}

// isProcessor reports whether a node is a processor: always readable, without a render
// node.
func isProcessor(r files, node int) bool {
	text, err := read(r, path.Join(topologyNodes, strconv.Itoa(node), "properties"))
	return err == nil && parseProperties(text).render == 0
}

// nearer returns the smaller number of hops. 0 means unreachable.
func nearer(a, b int) int {
	if a == 0 || b == 0 {
		return cmp.Or(a, b)
	}
	return min(a, b)
}

func sameNUMA(a, b end) bool {
	if a.numa >= 0 && b.numa >= 0 {
		return a.numa == b.numa
	}
	return a.cpu >= 0 && a.cpu == b.cpu
}
