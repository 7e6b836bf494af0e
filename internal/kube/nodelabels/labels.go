// Package nodelabels computes the labels of a Kubernetes node with AMD GPUs: those of AMD's
// node labeller, and those with which ClusterBloom finds nodes with GPUs. It reads only
// sysfs, opens no GPU, accesses no cluster and has no credentials. Node Feature Discovery,
// or an administrator with kubectl, adds the labels to the node.
package nodelabels

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// Machine describes a machine for its labels.
type Machine struct {
	GPUs map[gpu.Slot]Values // whole ones, or partitions

	DriverVersion string // of the module amdgpu; the kernel's own has none
	DriverSource  string // srcversion: a checksum of the module's source

	ComputePartitions bool // the first GPU can be partitioned
	MemoryPartitions  bool // its memory can be partitioned
}

// Values holds the values of one GPU by the name of the label. Unknown ones are missing.
type Values map[string]string

// Names of values. All but the style are names of AMD's labeller.
const (
	family      = "family"       // of the kernel (AMDGPU_FAMILY), as AMD's labeller abbreviates it, "AI"
	deviceID    = "device-id"    // "74a1"
	productName = "product-name" // "AMD Instinct MI300X OAM"
	vram        = "vram"         // "192G", in GiB
	simds       = "simd-count"
	cus         = "cu-count"
	style       = "style" // "cpx_nps4" if it can be partitioned
)

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
	for _, name := range []string{family, deviceID, productName, vram, simds, cus} {
		addProperty(of, name, count(m.GPUs, name))
	}
	styles := count(m.GPUs, style)
	for one := range styles {
		if len(styles) == 1 {
			of["amd.com/gpu.compute-memory-partition"] = one
		}
	}
	of["amd.com/gpu.compute-partitioning-supported"] = strconv.FormatBool(m.ComputePartitions)
	of["amd.com/gpu.memory-partitioning-supported"] = strconv.FormatBool(m.MemoryPartitions)
	for property, value := range map[string]string{"driver-version": m.DriverVersion,
		"driver-src-version": m.DriverSource} {
		if value = ToValue(value); value != "" {
			of["amd.com/gpu."+property] = value
		}
	}
	return of
}

func count(gpus map[gpu.Slot]Values, name string) map[string]int {
	of := map[string]int{}
	for _, g := range gpus {
		if v := ToValue(g[name]); v != "" {
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

// ToValue converts a text to a valid value. AMD's labeller replaces spaces by "_" and omits
// parentheses. Other characters that Kubernetes refuses become "_", too.
func ToValue(text string) string {
	text = strings.NewReplacer(" ", "_", "(", "", ")", "").Replace(text)
	text = invalidChar.ReplaceAllString(text, "_")
	return strings.Trim(text[:min(len(text), maxLength)], "-_.")
}
