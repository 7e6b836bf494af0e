// Package wellknown has the ports, folders and words that packages have to agree on
// which do not import each other. It imports none of them and decides nothing.
package wellknown

import "strings"

// Ports that Concourse and this charm listen on.
const (
	TSAPort        = 2222 // of a web: workers register there
	ContainersPort = 7777 // of a worker
	JobsPort       = 9358 // metrics of Concourse's jobs
	WebMetricsPort = 9391 // metrics of a web
	GPUsPort       = 9401 // metrics of GPUs
)

// Dispatch names the charm's program, and ReadGPUFiles its command under gpu that reads files
// of GPUs. A program of another name, such as a test's, must not be started for that.
const (
	Dispatch     = "dispatch"
	ReadGPUFiles = "attributes"
)

// StateDir holds what the charm itself has to remember. It is 0700.
const StateDir = "/var/lib/concourse-charm"

// PCIAnnotation is the annotation of a CDI device that has the GPU's PCI address, in the
// charm's descriptions before they named GPUs by their slots, see PCIOf.
const PCIAnnotation = "concourse-ci-machine/pci"

// PCIOf is the PCI address of a GPU by the name of its slot: 0000:03:00.0 is the name of a
// GPU, and 0000:03:00.0-1 that of its partition 1. It is "" of another name.
func PCIOf(slot string) string {
	pci, partition, divided := strings.Cut(slot, "-")
	domain, rest, _ := strings.Cut(pci, ":")
	bus, rest, _ := strings.Cut(rest, ":")
	device, function, _ := strings.Cut(rest, ".")
	of := func(digits, s string, least, most int) bool {
		return len(s) >= least && len(s) <= most && strings.Trim(s, digits) == ""
	}
	const hex = "0123456789abcdef"
	if !of(hex, domain, 4, 8) || !of(hex, bus, 2, 2) || !of(hex, device, 2, 2) || !of(hex, function, 1, 1) || divided && !of(hex[:10], partition, 1, 4) {
		return ""
	}
	return pci
}

// AMD's GPUs in the Container Device Interface: the kind of their devices and the file
// that the charm describes them in; and the variable by which a container chooses.
const (
	AMDKind    = "amd.com/gpu"
	AMDSpec    = "/etc/cdi/amd.json"
	AMDVisible = "AMD_VISIBLE_DEVICES"
)

// GPUError is the name of an error of GPUs by its code, which are 1 to 8.
func GPUError(code int) string {
	return [...]string{
		1: "GPU Memory Error", 2: "GPU Hang", 3: "PCIe Error", 4: "Thermal Throttling",
		5: "Power Limit Exceeded", 6: "ECC Error - Correctable", 7: "ECC Error - Uncorrectable", 8: "XGMI Link Error",
	}[code]
}

// IsHandle tells the name that Concourse gives a container, a UUID, from those of other
// programs' containers.
func IsHandle(name string) bool {
	if len(name) != 36 {
		return false
	}
	for i, c := range []byte(name) {
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}
