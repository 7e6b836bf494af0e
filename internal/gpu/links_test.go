package gpu_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const (
	pcie = 2
	xgmi = 11
)

// link puts the n-th link of a topology node.
func link(t *testing.T, r host.Root, kind string, n, from, to, weight, typ int) {
	t.Helper()
	hosttest.Put(t, r, fmt.Sprintf("%s/%d/%s/%d/properties", nodes, from, kind, n),
		fmt.Sprintf("type %d\nversion_major 0\nnode_from %d\nnode_to %d\nweight %d\nmin_bandwidth 50000\nmax_bandwidth 50000\nflags 1\n", typ, from, to, weight))
}

// hives puts what KFD reports of host mi210x4: GPU nodes 2 and 3 are one hive, 4 and 5
// another; 2 and 3 hang on processor 0, 4 and 5 on processor 1.
func hives(t *testing.T, r host.Root) {
	t.Helper()
	for _, pair := range [][2]int{{2, 3}, {4, 5}} {
		for _, ends := range [][2]int{pair, {pair[1], pair[0]}} {
			link(t, r, "io_links", 0, ends[0], pair[0]/2-1, 20, pcie)
			link(t, r, "io_links", 1, ends[0], ends[1], 15, xgmi)
		}
	}
	for i, to := range []int{1, 4, 5} { // another processor and the other hive, over PCIe
		link(t, r, "p2p_links", i, 2, to, 72, pcie)
	}
}

func four(t *testing.T, r host.Root) []gpu.GPU {
	t.Helper()
	gpus := discover(t, r).GPUsOf(gpu.AMD)
	require.Len(t, gpus, 4)
	for i, g := range gpus {
		require.Equal(t, 2+i, g.KFDNode)
	}
	return gpus
}

// text is a matrix in short: = same GPU, a number of hops, n same NUMA node.
func text(links [][]gpu.Link) (out []string) {
	for _, row := range links {
		line := ""
		for _, l := range row {
			cell := "."
			if l.Hops > 0 {
				cell = fmt.Sprint(l.Hops)
			}
			if l.NUMA {
				cell += "n"
			}
			if l.Same {
				cell = "="
			}
			line += " " + cell
		}
		out = append(out, line[1:])
	}
	return out
}

func TestLinksOfGPUs(t *testing.T) {
	apart := []string{". . . .", ". . . .", ". . . .", ". . . ."}
	inHives := []string{". 1n . .", "1n . . .", ". . . 1n", ". . 1n ."}
	numa := func(t *testing.T, r host.Root, nodes ...int) {
		for i, g := range four(t, r) {
			hosttest.Put(t, r, g.Sysfs+"/numa_node", fmt.Sprintln(nodes[i]))
		}
	}
	for name, c := range map[string]struct {
		put  func(*testing.T, host.Root)
		want []string
	}{
		"two hives, each at a processor": {hives, inHives},
		"nothing is known":               {func(*testing.T, host.Root) {}, apart},
		"NUMA nodes alone": {func(t *testing.T, r host.Root) { numa(t, r, 0, 1, 1, 0) },
			[]string{". . . .n", ". . .n .", ". .n . .", ".n . . ."}},
		"NUMA nodes before KFD's processors": {func(t *testing.T, r host.Root) { hives(t, r); numa(t, r, 0, 0, 0, 0) },
			[]string{". 1n .n .n", "1n . .n .n", ".n .n . 1n", ".n .n 1n ."}},
		"-1 is no NUMA node":       {func(t *testing.T, r host.Root) { numa(t, r, -1, -1, -1, -1) }, apart},
		"and KFD knows it instead": {func(t *testing.T, r host.Root) { hives(t, r); numa(t, r, -1, -1, -1, -1) }, inHives},
		"the NUMA node of one alone says nothing": {func(t *testing.T, r host.Root) { hives(t, r); numa(t, r, 0, -1, -1, -1) },
			[]string{". 1n . .", "1n . . .", ". . . 1n", ". . 1n ."}},
		"hops are counted, the fewest win": {func(t *testing.T, r host.Root) {
			link(t, r, "io_links", 0, 2, 3, 30, xgmi)
			link(t, r, "p2p_links", 0, 3, 2, 15, xgmi)
			link(t, r, "io_links", 0, 4, 5, 45, xgmi)
			link(t, r, "io_links", 1, 4, 3, 0, xgmi)
		}, []string{". 1 . .", "1 . 1 .", ". 1 . 3", ". . 3 ."}},
		"one way is enough, others' links are no fault": {func(t *testing.T, r host.Root) {
			link(t, r, "io_links", 0, 2, 3, 15, xgmi)
			for _, n := range []string{"1", "x"} { // a directory also stops root, as EPERM does elsewhere
				require.NoError(t, os.MkdirAll(r.Path(nodes+"/2/io_links/"+n+"/properties"), 0o755))
			}
			require.NoError(t, r.MkdirAll(nodes+"/3/p2p_links", 0o755))
			hosttest.Put(t, r, nodes+"/4/io_links", "")
		}, []string{". 1 . .", "1 . . .", ". . . .", ". . . ."}},
		"damaged links are none": {func(t *testing.T, r host.Root) {
			for i, text := range []string{"", "type 11\n", "type 11\nnode_from 2\n", "type 11\nnode_from 3\nnode_to 4\n", "type 11\nnode_from 2\nnode_to 2\n",
				"type 11\nnode_from 2\nnode_to -3\n", "type 11\nnode_from 2\nnode_to 4294967299\n", "type eleven\nnode_from 2\nnode_to 3\n"} {
				hosttest.Put(t, r, fmt.Sprintf("%s/2/io_links/%d/properties", nodes, i), text)
			}
		}, apart},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, "mi210x4")
			for _, g := range four(t, r) {
				require.False(t, r.Exists(g.Sysfs+"/numa_node"), "the fixture says nothing of NUMA")
			}
			c.put(t, r)
			require.Equal(t, c.want, text(gpu.ReadLinks(r, four(t, r))))
		})
	}
}

// In a container KFD refuses the nodes and links of others' GPUs.
func TestLinksOfAContainersOwnGPUs(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	hives(t, r)
	gpus := four(t, r)
	for _, other := range []int{3, 4} {
		refuse(t, r, other)
	}
	require.Equal(t, []string{". .", ". ."}, text(gpu.ReadLinks(r, []gpu.GPU{gpus[0], gpus[3]})))
}

func TestLinksOfPartitions(t *testing.T) {
	r := hosttest.Host(t, "mi300x-cpx")
	gpus := discover(t, r).GPUsOf(gpu.AMD)
	require.Len(t, gpus, 9)
	link(t, r, "io_links", 0, 2, 3, 13, xgmi)
	link(t, r, "io_links", 0, 4, 10, 15, xgmi)
	require.Equal(t, []string{". = = .", "= . = .", "= = . 1", ". . 1 ."},
		text(gpu.ReadLinks(r, []gpu.GPU{gpus[0], gpus[1], gpus[2], gpus[8]})))
	require.Empty(t, gpu.ReadLinks(r, nil))
}

func TestGPUWithoutKFDNodeHasItsNUMANode(t *testing.T) {
	r := host.Root(t.TempDir())
	hosttest.Put(t, r, "/sys/devices/a/numa_node", "3\n")
	hosttest.Put(t, r, "/sys/devices/b/numa_node", "3\n")
	of := func(name string) gpu.GPU {
		return gpu.GPU{Slot: gpu.Slot{PCI: name, Sysfs: "/sys/devices/" + name}, KFDNode: -1}
	}
	require.Equal(t, []string{". .n .", ".n . .", ". . ."}, text(gpu.ReadLinks(r, []gpu.GPU{of("a"), of("b"), of("c")})))
}

// Eight MI210, four in each of two hives, as a real machine shows them.
func TestCapturedLinks(t *testing.T) {
	from := hosttest.Captures(t, "fixtures/kfd/topo-mi210-xgmi-pcie/nodes")
	r := host.Root(t.TempDir())
	copyTree(t, from, r.Path(nodes))
	var gpus []gpu.GPU
	for n := 2; n < 10; n++ {
		gpus = append(gpus, gpu.GPU{Slot: gpu.Slot{PCI: fmt.Sprint(n), Sysfs: fmt.Sprintf("/sys/devices/%d", n)}, KFDNode: n})
	}
	got := text(gpu.ReadLinks(r, gpus))
	require.Equal(t, ". 1n 1n 1n . . . .", got[0])
	require.Equal(t, "1n 1n . 1n . . . .", got[2])
	require.Equal(t, ". . . . 1n 1n 1n .", got[7])
}

func FuzzLink(f *testing.F) {
	f.Add("type 11\nnode_from 2\nnode_to 3\nweight 15\n")
	f.Add("weight 99999999999\nnode_to\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := host.Root(t.TempDir())
		hosttest.Put(t, r, nodes+"/2/io_links/0/properties", text)
		for _, row := range gpu.ReadLinks(r, []gpu.GPU{{Slot: gpu.Slot{PCI: "a"}, KFDNode: 2}, {Slot: gpu.Slot{PCI: "b"}, KFDNode: 3}}) {
			for _, l := range row {
				require.GreaterOrEqual(t, l.Hops, 0)
				require.False(t, l.Same)
			}
		}
	})
}
