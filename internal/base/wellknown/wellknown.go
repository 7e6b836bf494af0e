// Package wellknown has the ports, folders and names that several packages must agree on
// without importing each other. It imports none of them and decides nothing.
package wellknown

import "path"

// Ports that Concourse and this charm listen on.
const (
	TSAPort        = 2222 // of a web: workers register there
	ContainersPort = 7777 // of a worker
	JobsPort       = 9358 // metrics of Concourse's jobs
	WebMetricsPort = 9391 // metrics of a web
	GPUsPort       = 9401 // metrics of GPUs
)

// Repository holds the address of this project, with the runbook in its docs.
const Repository = "https://github.com/fourdollars/concourse-ci-machine"

// FleetPath names the path at which concourse-exporter also serves its pages, for a proxy
// that has other pages at the same name.
const FleetPath = "/fleet"

// The programs with commands for people: Dispatch on a unit, MachineProgram on a machine
// that runs a CI without Juju, GPUKit on others. ReadGPUFiles is their command under gpu that
// reads files of GPUs.
const (
	Dispatch       = "dispatch"
	GPUKit         = "gpukit"
	MachineProgram = "concourse-ci-machine"
	ReadGPUFiles   = "attributes"
)

// ServesCommands reports whether a program's file is one with these commands. Another file,
// such as a test, must not be started for them.
func ServesCommands(file string) bool {
	name := path.Base(file)
	return name == Dispatch || name == GPUKit
}

// The folders of this project's state: StateDir until it is removed, RunDir until the next
// boot. The first writer makes them. All users may read them, but not each file in them. Only
// root may read LockDir, because every reader of a file can lock it.
const (
	StateDir = "/var/lib/concourse-ci-machine"
	RunDir   = "/run/concourse-ci-machine"
	LockDir  = RunDir + "/locks"
)

// AMD's GPUs in the Container Device Interface: the kind of their devices, the file with
// the charm's description, and the variable with which a container chooses.
const (
	AMDKind    = "amd.com/gpu"
	AMDSpec    = "/etc/cdi/amd.json"
	AMDVisible = "AMD_VISIBLE_DEVICES"
)

// GPUError returns the name of a GPU error by its code, 1 to 8.
func GPUError(code int) string {
	return [...]string{
		1: "GPU Memory Error", 2: "GPU Hang", 3: "PCIe Error", 4: "Thermal Throttling",
		5: "Power Limit Exceeded", 6: "ECC Error - Correctable", 7: "ECC Error - Uncorrectable", 8: "XGMI Link Error",
	}[code]
}

// IsHandle reports whether name is a container's name from Concourse, which is a UUID.
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
