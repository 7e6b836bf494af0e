package monitor

import (
	"time"

	"concourse-ci-machine/internal/base/statefile"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/reading"
	"concourse-ci-machine/internal/pool/clockpin"
	"concourse-ci-machine/internal/pool/lease"
)

// LeaseReport lists the leases of this unit's GPUs. A privileged process writes it, because
// only root can see leases and the processes that hold them.
type LeaseReport struct {
	At       time.Time     `json:"at"`
	GPUs     []LeasedGPU   `json:"gpus"`
	Counters LeaseCounters `json:"since_boot"`
}

// LeasedGPU describes one GPU's lease.
type LeasedGPU struct {
	Name      string     `json:"name"`            // see gpu.Slot
	Index     *int       `json:"index,omitempty"` // the number that gpu-device-ids takes; nil for a missing GPU
	PCI       string     `json:"pci,omitempty"`
	Held      bool       `json:"held"`
	Kind      lease.Kind `json:"kind,omitempty"`      // kind of holder
	Container string     `json:"container,omitempty"` // holder: task handle, short id of an engine, container of a pod
	Namespace string     `json:"namespace,omitempty"` // namespace of the pod
	Pod       string     `json:"pod,omitempty"`
	Engine    string     `json:"engine,omitempty"` // engine of the container, see lease.State
	Since     *time.Time `json:"since,omitempty"`
	PID       int        `json:"pid,omitempty"`   // of the container's init
	Doubt     string     `json:"doubt,omitempty"` // why the lease is valid although its holder cannot be seen
	Clocks    *Clocks    `json:"clocks,omitempty"`
}

// Clocks describes a GPU's clocks that are fixed for a benchmark, see package clockpin.
type Clocks struct {
	Level     clockpin.Level `json:"level,omitempty"`
	Container string         `json:"container,omitempty"` // that requested the clocks
	Since     time.Time      `json:"since,omitzero"`
	Why       string         `json:"why,omitempty"` // why the last measurement is partly invalid, or the clocks unknown
}

// LeaseCounters holds counts since the boot.
type LeaseCounters struct {
	Granted     uint64  `json:"granted"`
	Busy        uint64  `json:"refused_busy"`
	Impossible  uint64  `json:"refused_impossible"`
	HeldSeconds float64 `json:"held_seconds"`
}

// StaleLeases is the age at which a report is no longer current. The report is written at
// each check of the GPUs by Pebble.
const StaleLeases = 2 * time.Minute

// LeaseFile declares the file of a LeaseReport.
func LeaseFile(path string) statefile.File[LeaseReport] {
	return statefile.File[LeaseReport]{Path: path, Mode: 0o644}
}

// readLeases reads the report for a snapshot.
func (m *Monitor) readLeases() *LeaseReport {
	if m.options.Leases == "" {
		return nil
	}
	return decodeReport(m, "leases", LeaseFile(""), m.readReport("leases", m.options.Leases))
}

// find returns the lease of a device, nil if the report is stale or lacks the device.
func (r *LeaseReport) find(d reading.Device, now time.Time) *LeasedGPU {
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
