// Package nodelabels computes the labels of a Kubernetes node with AMD GPUs: those of AMD's
// node labeller, and those with which ClusterBloom finds nodes with GPUs. It reads only
// sysfs, opens no GPU, accesses no cluster and has no credentials. Node Feature Discovery,
// or an administrator with kubectl, adds the labels to the node.
package nodelabels

import (
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"regexp"
	"strconv"
	"strings"
)

// Machine describes a machine for its labels.
type Machine struct {
	GPUs []GPU // whole ones, or partitions

	DriverVersion string // of the module amdgpu; the kernel's own has none
	DriverSource  string // srcversion: a checksum of the module's source

	ComputePartitions bool // the first GPU can be partitioned
	MemoryPartitions  bool // its memory can be partitioned
}

// GPU describes one GPU. Unknown values are "".
type GPU struct {
	gpu.Slot
	Family      string // of the kernel (AMDGPU_FAMILY), as AMD's labeller abbreviates it, "AI"
	DeviceID    string // "74a1"
	ProductName string // "AMD Instinct MI300X OAM"
	VRAM        string // "192G", in GiB
	SIMDs, CUs  string
	Style       string // "cpx_nps4" if it can be partitioned
}

// anyGPU is the label of nodes with GPUs that ClusterBloom's installation guide sets in
// addition to amd.com/gpu. It has no prefix, and Node Feature Discovery sets no labels
// without a prefix.
const (
	anyGPU    = "gpu"
	anyGPUNFD = "feature.node.kubernetes.io/" + anyGPU
)

// Labels returns the labels of a machine, and none if it has no GPU. It adjusts values that
// Kubernetes would refuse, and leaves out such names.
func Labels(m Machine) map[string]string {
	of := map[string]string{}
	if len(m.GPUs) == 0 {
		return of
	}
	of[anyGPU], of["amd.com/gpu"] = "true", "true"
	for property, value := range map[string]func(GPU) string{
		"family":       func(g GPU) string { return g.Family },
		"device-id":    func(g GPU) string { return g.DeviceID },
		"product-name": func(g GPU) string { return g.ProductName },
		"vram":         func(g GPU) string { return g.VRAM },
		"simd-count":   func(g GPU) string { return g.SIMDs },
		"cu-count":     func(g GPU) string { return g.CUs },
	} {
		addProperty(of, property, count(m.GPUs, value))
	}
	styles := count(m.GPUs, func(g GPU) string { return g.Style })
	for style := range styles {
		if len(styles) == 1 {
			of["amd.com/gpu.compute-memory-partition"] = style
		}
	}
	of["amd.com/gpu.compute-partitioning-supported"] = strconv.FormatBool(m.ComputePartitions)
	of["amd.com/gpu.memory-partitioning-supported"] = strconv.FormatBool(m.MemoryPartitions)
	for property, value := range map[string]string{"driver-version": m.DriverVersion,
		"driver-src-version": m.DriverSource} {
		if value = toValue(value); value != "" {
			of["amd.com/gpu."+property] = value
		}
	}
	return of
}

func count(gpus []GPU, value func(GPU) string) map[string]int {
	of := map[string]int{}
	for _, g := range gpus {
		if v := toValue(value(g)); v != "" {
			of[v]++
		}
	}
	return of
}

// addProperty labels a property as AMD's labeller does: with its value if all GPUs have the
// same, and otherwise with a name for each value and the number of GPUs. Below beta.amd.com
// it always adds those names.
func addProperty(of map[string]string, property string, values map[string]int) {
	for value, n := range values {
		name := "gpu." + property
		counter := name + "." + value
		if len(values) == 1 {
			of["amd.com/"+name], of["beta.amd.com/"+name] = value, value
		}
		if len(counter) > maxLength {
			continue
		}
		of["beta.amd.com/"+counter] = strconv.Itoa(n)
		if len(values) > 1 {
			of["amd.com/"+counter] = strconv.Itoa(n)
		}
	}
}

// maxLength is Kubernetes' limit for a value, and for a name after its prefix
// (k8s.io/apimachinery/pkg/util/validation).
const maxLength = 63

var invalidChar = regexp.MustCompile(`[^-A-Za-z0-9_.]`)

// toValue converts a text to a valid value. AMD's labeller replaces spaces by "_" and omits
// parentheses. Other characters that Kubernetes refuses become "_", too.
func toValue(text string) string {
	text = strings.NewReplacer(" ", "_", "(", "", ")", "").Replace(text)
	text = invalidChar.ReplaceAllString(text, "_")
	return strings.Trim(text[:min(len(text), maxLength)], "-_.")
}
