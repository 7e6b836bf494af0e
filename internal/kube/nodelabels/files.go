package nodelabels

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/amd/chips"
)

const (
	topology = "/sys/class/kfd/kfd/topology/nodes"
	module   = "/sys/module/amdgpu"
)

// Read reads the AMD GPUs of Discover.
func Read(r host.Root, gpus []gpu.GPU) Machine {
	m := Machine{GPUs: map[gpu.Slot]Values{}, DriverVersion: text(r, module+"/version"),
		DriverSource: text(r, module+"/srcversion")}
	for i, g := range gpus {
		m.GPUs[g.Slot] = read(r, g)
		if i == 0 {
			m.ComputePartitions = r.Exists(path.Join(g.Sysfs, "available_compute_partition"))
			m.MemoryPartitions = r.Exists(path.Join(g.Sysfs, "available_memory_partition"))
		}
	}
	return m
}

func read(r host.Root, g gpu.GPU) Values {
	of := Values{family: Family(g), deviceID: fmt.Sprintf("%04x", g.DeviceID), productName: g.Model,
		style: gpu.Style(r, g)}
	has := Properties(r, g)
	if n := has["simd_count"]; n > 0 {
		of[simds] = strconv.FormatUint(n, 10)
		if per := has["simd_per_cu"]; per > 0 {
			of[cus] = strconv.FormatUint(n/per, 10)
		}
	}
	if memory := Memory(r, g); memory > 0 {
		const mib = 1 << 20
		of[vram] = fmt.Sprintf("%dG", (memory/mib+512)/1024) // to the nearest GiB
	}
	return of
}

// Family returns the kernel's family of a GPU (AMDGPU_FAMILY), as AMD's programs abbreviate it.
func Family(g gpu.GPU) string { return chips.Find(g.DeviceID, g.GFX).Labeller }

// Properties returns the numbers that KFD has of a GPU, by their names.
func Properties(r host.Root, g gpu.GPU) map[string]uint64 {
	if g.KFDNode < 0 {
		return nil
	}
	return properties(text(r, path.Join(topology, strconv.Itoa(g.KFDNode), "properties")))
}

// Memory returns the memory of a GPU or partition in bytes, and 0 if it is not known.
func Memory(r host.Root, g gpu.GPU) (memory uint64) {
	if g.KFDNode >= 0 {
		memory = properties(text(r, path.Join(topology, strconv.Itoa(g.KFDNode), "mem_banks/0/properties")))["size_in_bytes"]
	}
	number := func(file string) (n uint64) {
		n, _ = strconv.ParseUint(text(r, path.Join(g.Sysfs, file)), 10, 64)
		return n
	}
	// Since Linux 6.10 KFD's bank of an APU is GTT, if that is larger than the carve-out.
	if gtt := number("mem_info_gtt_total"); amdgpu.IsIntegrated(g.GFX) && gtt > memory {
		return number("mem_info_vram_total") + gtt
	}
	if memory == 0 && g.Partition == 0 && gpu.Style(r, g) == "" { // otherwise it is the memory of all partitions
		memory = number("mem_info_vram_total")
	}
	return memory
}

// text returns a file's content, and "" if it is missing, because not all GPUs have all
// files.
func text(r host.Root, file string) string { return gpu.Attribute(r, file) }

// properties parses KFD's lines of a name and a decimal number.
func properties(text string) map[string]uint64 {
	of := map[string]uint64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			of[name] = n
		}
	}
	return of
}

// Files of Node Feature Discovery. Its worker reads each file of Dir (its source "local").
const (
	Parent = "/etc/kubernetes/node-feature-discovery" // exists if it is set up
	Dir    = Parent + "/features.d"
	File   = Dir + "/concourse-gpu"
)

// Lines formats labels for Node Feature Discovery, sorted by name. It adds Node Feature
// Discovery's own prefix to a name without one, because with the gate DisableAutoPrefix
// such names are refused. It writes no comment, which version 0.13 reads as a label.
func Lines(labels map[string]string) []byte {
	labels = maps.Clone(labels)
	if v, is := labels[anyGPU]; is {
		delete(labels, anyGPU)
		labels[anyGPUNFD] = v
	}
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&b, "%s=%s\n", name, labels[name])
	}
	return b.Bytes()
}

// nodeName matches the names of Kubernetes nodes: DNS subdomains of RFC 1123.
var nodeName = lazyregexp.New(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// Manifest returns a node with only these labels, for kubectl apply --server-side. kubectl
// adds them to the node, and removes labels that a later manifest no longer has.
func Manifest(node string, labels map[string]string) ([]byte, error) {
	if !nodeName().MatchString(node) || len(node) > 253 {
		return nil, fmt.Errorf("cannot label node %q: no node can have that name; kubectl get nodes has the "+
			"names", node)
	}
	type metadata struct {
		Name   string            `yaml:"name"`
		Labels map[string]string `yaml:"labels"`
	}
	return yaml.Marshal(struct {
		APIVersion string   `yaml:"apiVersion"`
		Kind       string   `yaml:"kind"`
		Metadata   metadata `yaml:"metadata"`
	}{"v1", "Node", metadata{node, labels}})
}
