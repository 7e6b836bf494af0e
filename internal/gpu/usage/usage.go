// Package usage measures the use of each AMD GPU: the memory and the engine time of every
// container, and of processes outside containers.
//
// DRM drivers print the resources and work of a client into the fdinfo of its file
// descriptor (Documentation/gpu/drm-usage-stats.rst). KFD, the compute interface, has a
// folder for each of its processes (kfd_process.c). The container is part of the process's
// control group. NVIDIA's driver has no such file, so its GPUs only show the processes that
// hold /dev/nvidiaN open. The package runs no program, writes nothing, and never reads the
// environment, command line or memory of a process. It wakes no GPU: the driver answers
// from its own records.
//
// All work is bounded, whatever the machine's processes do: files, GPU clients, containers,
// and readings that hang, at most one for each GPU and source. Scans belong on a timer, and
// scrapes use the last result.
package usage

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/deadline"
)

// Amount is a number with the name of its unit or kind.
type Amount struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Row holds the use of one GPU by one container.
type Row struct {
	Container string   `json:"container"`         // "": no container; Other: all beyond the limit
	Processes int      `json:"processes"`         // with the GPU open; 0 if they have ended
	Open      float64  `json:"open_seconds"`      // with the GPU open, since the container was first seen
	Memory    []Amount `json:"memory,omitempty"`  // bytes by kind: vram, gtt, cpu, kfd (part of vram)
	Peak      []Amount `json:"peak,omitempty"`    // at most one: peak bytes of vram, if the kernel counts it
	Engines   []Amount `json:"engines,omitempty"` // seconds by engine since first seen; never decreases
	Busy      []Amount `json:"busy,omitempty"`    // share since the last scan; several engines exceed 1
	Units     []Amount `json:"units,omitempty"`   // at most one: busy compute units, if the GPU reports it
}

// Other is the container name of all containers beyond the limit.
const Other = "other"

// Result holds one finished scan. A privileged process passes it on as JSON.
type Result struct {
	At      time.Time     `json:"at"`
	Took    time.Duration `json:"took_ns"` // of the walk over the processes
	Left    LeftOut       `json:"left_out"`
	Devices []Used        `json:"devices"` // without those whose driver did not answer
}

// Used holds the users of a GPU, by container name, and its processes with memory, the
// largest first.
type Used struct {
	gpu.Slot
	Rows      []Row     `json:"rows"`
	Processes []Process `json:"processes,omitempty"`
}

// LeftOut counts the gaps of a scan.
type LeftOut struct {
	Namespace  int `json:"namespace"`  // KFD processes of the host without a process here
	Unreadable int `json:"unreadable"` // processes that may not be read
	Limit      int `json:"limit"`      // processes and clients beyond the limits of a scan
}

// Find returns the users of a GPU, nil if its driver did not answer.
func (r *Result) Find(d gpu.Slot) *Used {
	for i, u := range r.Devices {
		if u.PCI == d.PCI && u.Partition == d.Partition {
			return &r.Devices[i]
		}
	}
	return nil
}

// Options holds the scanner's limits; 0 selects the default.
type Options struct {
	Containers int // shown for each GPU; 64
	Links      int // descriptors read in a scan, and as many of known users; 20,000
	Clients    int // read for each GPU in a scan; 4096
}

// The defaults.
const (
	DefaultContainers = 64
	defaultLinks      = 20_000
	defaultClients    = 4096
)

// Scanner scans the machine below a root repeatedly.
type Scanner struct {
	root    host.Root
	options Options
	now     func() time.Time
	last    atomic.Pointer[Result]

	scanning sync.Mutex // one scan at a time; guards what follows
	walk     walk
	ledgers  map[string]*ledger // by address

	readings deadline.Group[string, any] // by GPU and source
}

// New returns a scanner. now may be nil.
func New(root host.Root, o Options, now func() time.Time) *Scanner {
	if o.Containers <= 0 {
		o.Containers = DefaultContainers
	}
	if o.Links <= 0 {
		o.Links = defaultLinks
	}
	if o.Clients <= 0 {
		o.Clients = defaultClients
	}
	if now == nil {
		now = time.Now
	}
	return &Scanner{root: root, options: o, now: now, ledgers: map[string]*ledger{},
		walk: newWalk(root, o.Links)}
}

// Last returns the latest result, nil before the first.
func (s *Scanner) Last() *Result { return s.last.Load() }
