package pool

import (
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// ReportFile is the file with the Report. The exporter, which is not root, reads it.
const ReportFile = wellknown.RunDir + "/gpu-leases.json"

// LeaseFile declares ReportFile.
var LeaseFile = statefile.File[Report]{Path: ReportFile, Mode: 0o644}

// Report lists the leases of this unit's GPUs. A privileged process writes it, because
// only root can see leases and the processes that hold them.
type Report struct {
	At       time.Time       `json:"at"`
	GPUs     []ReportedLease `json:"gpus"`
	Counters LeaseCounters   `json:"since_boot"`
}

// ReportedLease describes one GPU's lease. Engine, process and clocks are for the unit's own
// commands, and not in a View.
type ReportedLease struct {
	Name  string `json:"name"`            // see gpu.Slot.Address
	Index *int   `json:"index,omitempty"` // the number that gpu-device-ids takes; nil for a missing GPU
	PCI   string `json:"pci,omitempty"`
	Lease
	Engine string `json:"engine,omitempty"` // engine of the container, see lease.State
	PID    int    `json:"pid,omitempty"`    // of the container's init
	// Clocks replaces the level of Lease, which is not set here.
	Clocks *Clocks `json:"clocks,omitempty"`
}

// Clocks describes a GPU's clocks that are fixed for a benchmark, see package fixedclocks.
type Clocks struct {
	Level     fixedclocks.Level `json:"level,omitempty"`
	Container string            `json:"container,omitempty"` // that requested the clocks
	Since     time.Time         `json:"since,omitzero"`
	// Why is why the last measurement is partly invalid, or the clocks unknown.
	Why string `json:"why,omitempty"`
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

// Stale reports whether the report is too old to be shown.
func (r *Report) Stale(now time.Time) bool { return now.Sub(r.At).Abs() >= StaleLeases }

// Find returns the lease of a GPU by its address, and nil if it is not leased.
func (r *Report) Find(address string) *ReportedLease {
	for i := range r.GPUs {
		if r.GPUs[i].Name == address {
			return &r.GPUs[i]
		}
	}
	return nil
}

// NewReport returns the report of leases. gpus are the GPUs of states, in the same order.
// clocks returns the fixed clocks of a GPU by its address, or nil.
func NewReport(
	at time.Time, gpus []gpu.Slot, states []lease.State, n lease.Counters, clocks func(address string) *Clocks,
) Report {
	r := Report{At: at, GPUs: []ReportedLease{}, Counters: LeaseCounters{
		Granted: n.Granted, Busy: n.Busy, Impossible: n.Impossible, HeldSeconds: float64(n.HeldMS) / 1000,
	}}
	for i, s := range states {
		one := ReportedLease{Name: s.GPU, Lease: leaseOf(s), Clocks: clocks(s.GPU)}
		if gpus[i].Index != gpu.Missing {
			one.Index, one.PCI = &gpus[i].Index, gpus[i].PCI
		}
		if s.Held {
			one.Engine, one.PID = s.Engine, s.PID
		}
		r.GPUs = append(r.GPUs, one)
	}
	return r
}
