package monitor

import (
	"time"

	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd/amdgpu"
	"concourse-ci-machine/internal/pool/clockpin"
	"concourse-ci-machine/internal/pool/lease"
)

// LeaseReport is who leases this unit's GPUs, as a process that may see it wrote
// it down: leases and the processes that hold them are root's to look at.
type LeaseReport struct {
	At       time.Time     `json:"at"`
	GPUs     []LeasedGPU   `json:"gpus"`
	Counters LeaseCounters `json:"since_boot"`
}

// LeasedGPU is one GPU's lease.
type LeasedGPU struct {
	Name      string     `json:"name"`            // see gpu.Slot
	Index     *int       `json:"index,omitempty"` // the number that gpu-device-ids takes; nil for a GPU that is gone
	PCI       string     `json:"pci,omitempty"`
	Held      bool       `json:"held"`
	Kind      lease.Kind `json:"kind,omitempty"`      // of who holds it
	Container string     `json:"container,omitempty"` // that holds it: a task's handle, an engine's short id, a pod's container
	Namespace string     `json:"namespace,omitempty"` // of a pod
	Pod       string     `json:"pod,omitempty"`
	Engine    string     `json:"engine,omitempty"` // of a container, see lease.State
	Since     *time.Time `json:"since,omitempty"`
	PID       int        `json:"pid,omitempty"`   // of the container's init
	Doubt     string     `json:"doubt,omitempty"` // why it counts as held though that can't be seen
	Clocks    *Clocks    `json:"clocks,omitempty"`
}

// Clocks are a GPU's that are fixed for a task that measures, see package pin.
type Clocks struct {
	Level     clockpin.Level `json:"level,omitempty"`
	Container string         `json:"container,omitempty"` // whose
	Since     time.Time      `json:"since,omitzero"`
	Why       string         `json:"why,omitempty"` // why not all that it measured counts, last; or why nothing is known of the clocks
}

// LeaseCounters count since the boot.
type LeaseCounters struct {
	Granted     uint64  `json:"granted"`
	Busy        uint64  `json:"refused_busy"`
	Impossible  uint64  `json:"refused_impossible"`
	HeldSeconds float64 `json:"held_seconds"`
}

// StaleLeases is the age from which a report tells nothing of the moment. It is written
// each time that Pebble looks at the GPUs.
const StaleLeases = 2 * time.Minute

// readLeases reads the report once a snapshot.
func (m *Monitor) readLeases() *LeaseReport {
	if m.options.Leases == "" {
		return nil
	}
	return decodeReport[LeaseReport](m, "leases", m.readReport("leases", m.options.Leases))
}

// of is the lease of a device, nil where none is told of.
func (r *LeaseReport) of(d amdgpu.Device, now time.Time) *LeasedGPU {
	if r == nil || now.Sub(r.At).Abs() >= StaleLeases {
		return nil
	}
	name := gpu.Slot(d.PCI, d.Partition)
	for i := range r.GPUs {
		if r.GPUs[i].Name == name {
			return &r.GPUs[i]
		}
	}
	return nil
}
