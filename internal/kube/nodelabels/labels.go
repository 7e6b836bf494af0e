// Package nodelabels says how a node of Kubernetes that has AMD's GPUs is labelled:
// with the names and values of AMD's node labeller, and those by which ClusterBloom finds
// nodes with GPUs. It reads sysfs alone, opens no GPU, asks no cluster and has no
// credentials: Node Feature Discovery, or a person with kubectl, brings labels to the node.
package nodelabels

import (
	"regexp"
	"strconv"
	"strings"
)

// Machine is what labels tell of a machine.
type Machine struct {
	GPUs []GPU // whole ones, or partitions

	DriverVersion string // of the module amdgpu; the kernel's own has none
	DriverSource  string // srcversion: a checksum of the module's source

	ComputePartitions bool // the first GPU can be divided
	MemoryPartitions  bool // so can its memory
}

// GPU is one of them. "" is what the machine does not tell.
type GPU struct {
	Slot        string // see gpu.Slot
	Family      string // as AMD's labeller abbreviates it, "AI"
	DeviceID    string // "74a1"
	ProductName string // "AMD Instinct MI300X OAM"
	VRAM        string // "192G", in GiB
	SIMDs, CUs  string
	Style       string // "cpx_nps4" where it can be divided
}

// The label of nodes with GPUs that ClusterBloom's installation guide sets beside
// amd.com/gpu. It has no prefix, and Node Feature Discovery sets none without.
const (
	anyGPU    = "gpu"
	anyGPUNFD = "feature.node.kubernetes.io/" + anyGPU
)

// Labels of a machine; none where it has no GPU. A value that Kubernetes would refuse is
// made fit, and a name that it would refuse is left out.
func Labels(m Machine) map[string]string {
	of := map[string]string{}
	if len(m.GPUs) == 0 {
		return of
	}
	of[anyGPU], of["amd.com/gpu"] = "true", "true"
	for property, value := range map[string]func(GPU) string{
		"family":       func(g GPU) string { return g.Family },
		"device-id":    func(g GPU) string { return g.DeviceID },
		"product-name": func(g GPU) string { return fit(g.ProductName) },
		"vram":         func(g GPU) string { return g.VRAM },
		"simd-count":   func(g GPU) string { return g.SIMDs },
		"cu-count":     func(g GPU) string { return g.CUs },
	} {
		counted(of, property, count(m.GPUs, value))
	}
	styles := count(m.GPUs, func(g GPU) string { return g.Style })
	for style := range styles {
		if len(styles) == 1 {
			of["amd.com/gpu.compute-memory-partition"] = style
		}
	}
	of["amd.com/gpu.compute-partitioning-supported"] = strconv.FormatBool(m.ComputePartitions)
	of["amd.com/gpu.memory-partitioning-supported"] = strconv.FormatBool(m.MemoryPartitions)
	for property, value := range map[string]string{"driver-version": m.DriverVersion, "driver-src-version": m.DriverSource} {
		if value = fit(value); value != "" {
			of["amd.com/gpu."+property] = value
		}
	}
	return of
}

func count(gpus []GPU, value func(GPU) string) map[string]int {
	of := map[string]int{}
	for _, g := range gpus {
		if v := value(g); v != "" {
			of[v]++
		}
	}
	return of
}

// counted labels a property as AMD's labeller does: by its value where all GPUs have one,
// else by a name for each value with the number of GPUs; below beta.amd.com there are
// those names in any case.
func counted(of map[string]string, property string, values map[string]int) {
	for value, n := range values {
		name := "gpu." + property
		counter := name + "." + value
		if len(values) == 1 {
			of["amd.com/"+name], of["beta.amd.com/"+name] = value, value
		}
		if len(counter) > longest {
			continue
		}
		of["beta.amd.com/"+counter] = strconv.Itoa(n)
		if len(values) > 1 {
			of["amd.com/"+counter] = strconv.Itoa(n)
		}
	}
}

// longest is how much of a name, after its prefix, and of a value Kubernetes takes
// (k8s.io/apimachinery/pkg/util/validation).
const longest = 63

var unfit = regexp.MustCompile(`[^-A-Za-z0-9_.]`)

// fit makes a value of any text. AMD's labeller puts "_" for a blank and leaves
// parentheses out; other characters that Kubernetes refuses become "_", too.
func fit(text string) string {
	text = strings.NewReplacer(" ", "_", "(", "", ")", "").Replace(text)
	text = unfit.ReplaceAllString(text, "_")
	return strings.Trim(text[:min(len(text), longest)], "-_.")
}

// family is the name that AMD's labeller has for the kernel's AMDGPU_FAMILY of a GPU,
// told by its instruction set: the kernel derives both from the version of the graphics
// block (amdgpu_discovery.c, kfd_device.c), and to ask it would open the GPU. "" is a GPU
// that is not in the table.
func family(gfx string, device uint16) string {
	const mendocino = 0x1506 // KFD calls its 10.3.7 and Raphael's 10.3.6 by one name
	switch strings.TrimPrefix(gfx, "gfx") {
	case "900", "904", "906", "908", "90a", "940", "941", "942", "950":
		return "AI"
	case "902", "909", "90c":
		return "RV"
	case "1010", "1011", "1012", "1013", "1030", "1031", "1032", "1034":
		return "NV"
	case "1033":
		return "VGH"
	case "1035":
		return "YC"
	case "1036":
		if device == mendocino {
			return "GC_10_3_7"
		}
		return "GC_10_3_6"
	case "1100", "1101", "1102":
		return "GC_11_0_0"
	case "1103":
		return "GC_11_0_1"
	case "1150", "1151", "1152", "1153":
		return "GC_11_5_0"
	case "1200", "1201":
		return "GC_12_0_0"
	case "802", "803":
		return "VI"
	case "801":
		return "CZ"
	}
	return ""
}
