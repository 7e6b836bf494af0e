// Package pool joins what a unit has recorded of its GPUs: who has a GPU (package lease),
// and whether tasks get it (package quarantine). All packages that show GPUs carry a Record
// and show its View. The package decides nothing and leases nothing.
package pool

import (
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// Records holds the records of all GPUs of a unit.
type Records struct {
	Leases  *Report            // nil: GPUs are not leased, or there is no report
	Service *quarantine.Record // nil: no record
}

// Of returns the record of a GPU at a time. An old report is ignored, see StaleLeases.
func (r Records) Of(s gpu.Slot, now time.Time) Record {
	one := Record{Slot: s}
	if r.Leases != nil && !r.Leases.Stale(now) {
		one.Lease = r.Leases.Find(s.Address())
	}
	if r.Service != nil {
		one.Service = r.Service.Find(s.Address())
	}
	return one
}

// Record holds all that is recorded of one GPU.
type Record struct {
	gpu.Slot
	Lease   *ReportedLease  // nil: not leased, or unknown
	Service *quarantine.GPU // with its probation; nil: no decision, or unknown
}

// View returns the part of the record that is shown to everybody.
func (r Record) View() (v View) {
	if r.Lease != nil {
		v.Lease = &r.Lease.Lease
		if r.Lease.Clocks != nil {
			shown := r.Lease.Lease
			shown.Clocks, v.Lease = r.Lease.Clocks.Level, &shown
		}
	}
	if g := r.Service; g != nil {
		v.Service = &Service{g.State, g.Since.UTC(), g.Reason, g.QuarantinedBy}
		v.MemoryTaken = g.Memory.Text()
	}
	return v
}

// View is the part of a Record that the exporter's API, its page and the commands show.
type View struct {
	Lease *Lease `json:"lease"` // null: not leased, or unknown
	// Service shows whether tasks get the GPU; null: no decision, or unknown.
	Service *Service `json:"service"`
	// MemoryTaken is who else uses much of the GPU's memory, in words.
	MemoryTaken string `json:"memory_taken,omitempty"`
}

// Excluded reports whether the GPU is excluded from new tasks.
func (v View) Excluded() bool { return v.Service != nil && v.Service.State != quarantine.InService }

// Lease describes the holder of a GPU.
type Lease struct {
	Held   bool   `json:"held"`
	Holder        // of a held GPU
	Doubt  string `json:"doubt,omitempty"` // why the lease is valid although its holder cannot be seen
	// Clocks is the level of clocks that are fixed for a benchmark, "" without one.
	Clocks fixedclocks.Level `json:"clocks,omitempty"`
	Last   *Holder           `json:"last,omitempty"` // the last holder of a free GPU
}

// Holder describes a container or run that has a GPU, or had it.
type Holder struct {
	Kind lease.Kind `json:"kind,omitempty"`
	// Container is a task's handle, the short id of an engine, the container of a pod or the id of a run.
	Container string     `json:"container,omitempty"`
	Namespace string     `json:"namespace,omitempty"` // of the pod
	Pod       string     `json:"pod,omitempty"`
	Title     string     `json:"title,omitempty"` // of a run
	Since     *time.Time `json:"since,omitempty"` // start of its lease
}

// Name names the holder for people.
func (h Holder) Name() string {
	switch {
	case h.Pod != "":
		return "pod " + h.Namespace + "/" + h.Pod + ", container " + h.Container
	case h.Title != "":
		return h.Container + " (" + h.Title + ")"
	}
	return h.Container
}

func holderOf(s lease.State) Holder {
	h := Holder{Kind: s.Kind, Container: s.ShortName(), Title: s.Title}
	if namespace, pod, container := s.Pod(); pod != "" {
		h.Namespace, h.Pod, h.Container = namespace, pod, container
	}
	if since := s.Since.UTC(); !s.Since.IsZero() {
		h.Since = &since
	}
	return h
}

// leaseOf returns the lease of a GPU for reports.
func leaseOf(s lease.State) Lease {
	l, h := Lease{Held: s.Held, Doubt: s.Doubt}, holderOf(s)
	if s.Held {
		l.Holder = h
	} else if h.Container != "" {
		l.Last = &h
	}
	return l
}

// Service shows whether tasks get a GPU, as package quarantine decided.
type Service struct {
	State quarantine.State `json:"state"`
	Since time.Time        `json:"since"`        // start of the state
	Why   string           `json:"why"`          // reason of the state; by hand, text of the person
	By    quarantine.Actor `json:"by,omitempty"` // who quarantined the GPU; missing in service
}

// Text returns the start and the reason: "since 2026-08-01 14:03:05 UTC: hangs or is in
// reset".
func (s Service) Text() string {
	text := "since " + quarantine.FormatTime(s.Since)
	if s.By == quarantine.ByHand {
		text += " by hand"
	}
	return text + ": " + s.Why
}
