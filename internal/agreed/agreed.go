// Package agreed has the ports, folders and words that packages have to agree on
// which do not import each other. It imports nothing and decides nothing.
package agreed

// Ports that Concourse and this charm listen on.
const (
	TSAPort        = 2222 // of a web: workers register there
	ContainersPort = 7777 // of a worker
	JobsPort       = 9358 // metrics of Concourse's jobs
	WebMetricsPort = 9391 // metrics of a web
	GPUsPort       = 9401 // metrics of GPUs
)

// StateDir holds what the charm itself has to remember. It is 0700.
const StateDir = "/var/lib/concourse-charm"

// PCIAnnotation is the annotation of a CDI device that has the GPU's PCI address,
// by which a task can choose it: what the charm writes, and the wrapper reads.
const PCIAnnotation = "concourse-ci-machine/pci"

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
