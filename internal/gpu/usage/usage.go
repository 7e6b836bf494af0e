// Package usage tells who uses each AMD GPU: the memory and the engine time of
// every container, and of what runs in none.
//
// DRM drivers print what a client holds and has done into the fdinfo of its file
// descriptor (Documentation/gpu/drm-usage-stats.rst); KFD, the compute interface,
// keeps a folder for each of its processes (kfd_process.c). The container is in
// the process's control group. NVIDIA's driver has no such file: of its GPUs only the
// processes are known that hold /dev/nvidiaN open. No program is asked, nothing is written, no
// environment, command line or memory of a process is read, and no GPU is woken:
// the driver answers from its own books.
//
// It is bounded in all that it does, whatever the processes of the machine do:
// in files looked at, in GPU clients read, in containers shown, and in readings
// that hang, of which there is at most one for each GPU and source. It belongs
// on a timer beside the scrapes, which take the last result.
package usage

import (
	"sync"
	"sync/atomic"
	"time"

	"concourse-ci-machine/internal/base/host"
)

// Device is a GPU, or a partition of one, that clients are counted for.
type Device struct {
	PCI       string `json:"pci"` // "0000:03:00.0"; partitions have their parent's address
	Partition int    `json:"partition"`
	Own       string `json:"-"` // machine path of the folder in sysfs that has its DRM nodes, in drm/
	Node      string `json:"-"` // "nvidia0": the name in /dev of a GPU of NVIDIA, whose driver keeps no books
}

// Amount is a number with the name of what it counts.
type Amount struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Row is what one container uses of one GPU.
type Row struct {
	Container string   `json:"container"`         // "" is no container; Other is all beyond the limit
	Processes int      `json:"processes"`         // that hold the GPU open; 0 when it did so before
	Open      float64  `json:"open_seconds"`      // that it had the GPU open, since it was first seen
	Memory    []Amount `json:"memory,omitempty"`  // bytes, by kind: vram, gtt, cpu, and kfd, the part of vram that KFD counts
	Peak      []Amount `json:"peak,omitempty"`    // one: the most bytes of vram at a time, where the kernel counts it
	Engines   []Amount `json:"engines,omitempty"` // seconds since the container was first seen, by engine; never less than before
	Busy      []Amount `json:"busy,omitempty"`    // share of the time since the look before, by engine; over 1 where several of its kind worked
	Units     []Amount `json:"units,omitempty"`   // one: compute units at work, where the GPU tells
}

// Other is the container that stands for those beyond the limit.
const Other = "other"

// Result is one finished scan. As JSON a process that may look tells another.
type Result struct {
	At      time.Time     `json:"at"`
	Took    time.Duration `json:"took_ns"` // of the walk over the processes
	Left    LeftOut       `json:"left_out"`
	Devices []Used        `json:"devices"` // less those whose driver did not answer
}

// Used is who uses a device, by the container's name.
type Used struct {
	Device
	Rows []Row `json:"rows"`
}

// LeftOut counts what a scan could not tell about.
type LeftOut struct {
	Namespace  int `json:"namespace"`  // KFD processes of the host that have no process here
	Unreadable int `json:"unreadable"` // processes that may not be looked at
	Limit      int `json:"limit"`      // processes and clients beyond what one scan looks at
}

// Of are the rows of a device; none where its driver did not answer.
func (r *Result) Of(d Device) []Row {
	for _, u := range r.Devices {
		if u.PCI == d.PCI && u.Partition == d.Partition {
			return u.Rows
		}
	}
	return nil
}

// Options are the scanner's limits; 0 stands for the default.
type Options struct {
	Containers int // shown for each GPU; 64
	Links      int // descriptors looked at in a scan, and as many of known users; 20,000
	Clients    int // read for each GPU in a scan; 4096
}

// The defaults.
const (
	DefaultContainers = 64
	defaultLinks      = 20_000
	defaultClients    = 4096
)

// Scanner scans the machine below a root again and again.
type Scanner struct {
	root    host.Root
	options Options
	now     func() time.Time
	last    atomic.Pointer[Result]

	scanning sync.Mutex // one scan at a time; guards what follows
	walk     walk
	ledgers  map[Device]*ledger

	mu   sync.Mutex
	busy map[string]bool // readings that have not come back
}

// New makes a scanner. now may be nil.
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
	return &Scanner{root: root, options: o, now: now, ledgers: map[Device]*ledger{}, busy: map[string]bool{},
		walk: newWalk(root, o.Links)}
}

// Last is the latest result, nil before the first.
func (s *Scanner) Last() *Result { return s.last.Load() }
