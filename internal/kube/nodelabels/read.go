package nodelabels

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/gpu"
)

const (
	topology = "/sys/class/kfd/kfd/topology/nodes"
	module   = "/sys/module/amdgpu"
)

// Read looks at AMD GPUs that Discover found.
func Read(r host.Root, gpus []gpu.GPU) Machine {
	m := Machine{DriverVersion: text(r, module+"/version"), DriverSource: text(r, module+"/srcversion")}
	for i, g := range gpus {
		m.GPUs = append(m.GPUs, read(r, g))
		if i == 0 {
			m.ComputePartitions = r.Exists(path.Join(g.Sysfs, "available_compute_partition"))
			m.MemoryPartitions = r.Exists(path.Join(g.Sysfs, "available_memory_partition"))
		}
	}
	return m
}

func read(r host.Root, g gpu.GPU) GPU {
	of := GPU{Slot: gpu.Slot(g.PCI, g.Partition), Family: family(g.GFX, g.DeviceID), DeviceID: fmt.Sprintf("%04x", g.DeviceID), ProductName: g.Name, Style: gpu.Style(r, g)}
	var vram uint64
	if g.KFDNode >= 0 {
		node := path.Join(topology, strconv.Itoa(g.KFDNode))
		has := properties(text(r, path.Join(node, "properties")))
		if simds := has["simd_count"]; simds > 0 {
			of.SIMDs = strconv.FormatUint(simds, 10)
			if per := has["simd_per_cu"]; per > 0 {
				of.CUs = strconv.FormatUint(simds/per, 10)
			}
		}
		vram = properties(text(r, path.Join(node, "mem_banks/0/properties")))["size_in_bytes"]
	}
	if vram == 0 && g.Partition == 0 && of.Style == "" { // else it is that of all partitions
		vram, _ = strconv.ParseUint(text(r, path.Join(g.Sysfs, "mem_info_vram_total")), 10, 64)
	}
	if vram > 0 {
		const mib = 1 << 20
		of.VRAM = fmt.Sprintf("%dG", (vram/mib+512)/1024) // to the nearest GiB
	}
	return of
}

// text is a file's content, "" where there is none: what one GPU has, another has not.
func text(r host.Root, file string) string { return gpu.Attribute(r, file) }

// properties reads KFD's lines of a name and a decimal number.
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
