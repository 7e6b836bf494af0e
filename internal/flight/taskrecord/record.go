// Package taskrecord holds the flight record of a task of Concourse, of a run of gpukit, or
// of a container of another engine: readings of its control group, its network, the machine
// and its GPUs, with its events and its end. "Task" means each of them. Store keeps a
// file for each task within limits of size and age. A record has no environment, no output
// and no command line, and the package never reads them.
package taskrecord

import (
	"fmt"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// Head identifies a task. It is written once, when the recorder first sees it.
type Head struct {
	Handle  string     `json:"handle"`           // of a task, or the id of a run or container
	Kind    lease.Kind `json:"kind,omitempty"`   // "" for a task
	Title   string     `json:"title,omitempty"`  // of a run, for people
	Engine  string     `json:"engine,omitempty"` // of a container, see lease.State
	Boot    string     `json:"boot"`             // /proc/sys/kernel/random/boot_id
	Started time.Time  `json:"started"`
	GPUs    []GPU      `json:"gpus,omitempty"`
	// Memory is the container's own limit in bytes, 0 for none.
	Memory int64 `json:"memory_limit,omitempty"`
	CPUs   int   `json:"cpus,omitempty"` // of the machine
}

// OfConcourse reports whether it is a task of Concourse.
func (h Head) OfConcourse() bool { return h.Kind == "" || h.Kind == lease.Task }

// GPU identifies a GPU of the task.
type GPU struct {
	Name     string `json:"name"` // gpu.Slot.Address
	Index    int    `json:"index"`
	ClockMax int64  `json:"clock_max_mhz,omitempty"`
	// OtherDie is the address of the other die in the package, one of which reports the power
	// of both; see gpu.ReadDies.
	OtherDie string `json:"other_die,omitempty"`
	// Memory is nil if the owners of the GPU's memory were not known.
	Memory *MemoryBefore `json:"memory_before,omitempty"`
}

// MemoryBefore describes a GPU's memory when the task began, in bytes, as package quarantine
// knew it.
type MemoryBefore struct {
	Total  float64 `json:"total_bytes"`
	Ended  float64 `json:"ended_bytes,omitempty"`  // left by an ended task
	Others float64 `json:"others_bytes,omitempty"` // of programs that are no task's
	Text   string  `json:"text,omitempty"`         // who has Others
}

// Dies returns the PCI addresses of the card: one, or two of a package.
func (g GPU) Dies() []string {
	card, _, _ := strings.Cut(g.Name, "-")
	if g.OtherDie == "" {
		return []string{card}
	}
	return []string{min(card, g.OtherDie), max(card, g.OtherDie)}
}

// Card returns the PCI address that the partitions of a card, or the dies of a package, have
// in common.
func (g GPU) Card() string { return g.Dies()[0] }

// Sample holds the values of one reading.
type Sample struct {
	At     int64 // milliseconds since 1970
	Values []int64
}

// Missing is the value of a counter that was not read.
const Missing = -1

// Get returns a value. ok is false if it was not read.
func (s Sample) Get(c int) (v int64, ok bool) {
	if c >= len(s.Values) || s.Values[c] == Missing {
		return 0, false
	}
	return s.Values[c], true
}

// Value returns a value, or Missing.
func (s Sample) Value(c int) int64 {
	v, ok := s.Get(c)
	if !ok {
		return Missing
	}
	return v
}

// NewSample returns a sample without values.
func NewSample(at time.Time, counters int) Sample {
	s := Sample{At: at.UnixMilli(), Values: make([]int64, counters)}
	for i := range s.Values {
		s.Values[i] = Missing
	}
	return s
}

// EventKind names an event.
type EventKind string

// The events.
const (
	OOMKill      EventKind = "oom-kill"       // the kernel killed a process of the task; Detail is an OOM scope
	Crash        EventKind = "crash"          // the kernel logged the crash of a process of the task
	GPUHang      EventKind = "gpu-hang"       // Detail has the signals
	GPUStuck     EventKind = "gpu-stuck"      // the kernel logged a ring or queue that stopped
	RingReset    EventKind = "ring-reset"     // the ring or queue was reset alone; Detail is ByTask, ByOther or ""
	GPUReset     EventKind = "gpu-reset"      // the kernel logged a hang or a reset of the GPU
	GPULost      EventKind = "gpu-lost"       // the card left the bus
	GPUError     EventKind = "gpu-error"      // the kernel logged uncorrectable hardware errors
	OwnFault     EventKind = "own-fault"      // quarantine found that the task itself made the GPU hang; Detail is why
	Dump         EventKind = "dump"           // the driver wrote a dump of the GPU; Detail is its name, see End.Dumps
	WorkerEnded  EventKind = "worker-ended"   // Concourse's worker process ended
	DaemonEnded  EventKind = "daemon-ended"   // containerd ended
	WorkerBegan  EventKind = "worker-began"   // another one has started
	DaemonBegan  EventKind = "daemon-began"   // another one has started
	Resumed      EventKind = "resumed"        // the recorder was restarted, and readings are missing before
	Full         EventKind = "record-full"    // the record reached its largest size
	HardwareFail EventKind = "hardware-error" // the kernel logged an error of memory, processor or disk
)

// The process of a RingReset.
const (
	ByTask  = "task"
	ByOther = "other"
)

// Scopes of an OOM kill: the control group that ran out of memory.
const (
	ScopeTask    = "task"    // the container's own
	ScopeParent  = "parent"  // one above it
	ScopeMachine = "machine" // all memory of the machine
)

// Event happened at one time.
type Event struct {
	At     time.Time `json:"at"`
	Kind   EventKind `json:"kind"`
	GPU    string    `json:"gpu,omitempty"`
	Detail string    `json:"detail,omitempty"`
}

// Ending is the way in which a record ended.
type Ending string

// The endings.
const (
	Exited  Ending = "exited"  // the task's process ended
	Removed Ending = "removed" // the container was removed, and no exit status was seen
	Reboot  Ending = "reboot"  // the machine restarted during the task
	Unseen  Ending = "unseen"  // the end was not seen, mostly because no recorder ran

	NotStarted Ending = "not-started" // no process of the task began, such as for a missing command
	NoStatus   Ending = "no-status"   // a run or container ended, and its exit status cannot be known
)

// End is written once, as the last part of a record.
type End struct {
	Ended  time.Time `json:"ended"`
	Ending Ending    `json:"ending"`
	Exit   *int      `json:"exit,omitempty"`          // nil if it is not known
	Unread string    `json:"kernel_unread,omitempty"` // why the kernel's log was not read
	// Program is equal for tasks that run the same, as in quarantine's record; "" if not known.
	// Earlier has its last good runs on this machine, the newest last.
	Program string `json:"program,omitempty"`
	Earlier []Pace `json:"earlier,omitempty"`
	// Clocks has the fixed clocks of a run, nil if they were not fixed.
	Clocks *Clocks `json:"fixed_clocks,omitempty"`
	Evidence
}

// Clocks describes the fixed clocks of a run's GPUs.
type Clocks struct {
	Level   fixedclocks.Level `json:"level"`
	Invalid string            `json:"invalid,omitempty"` // why measurements are not valid
}

// String describes the clocks for people.
func (c Clocks) String() string {
	if c.Invalid != "" {
		return fmt.Sprintf("fixed (%s), measurements not valid: %s", c.Level, c.Invalid)
	}
	return fmt.Sprintf("fixed (%s)", c.Level)
}

// Evidence holds the kernel's lines and dumps. It is written while the task runs, too, so that
// a restart of the recorder keeps it.
type Evidence struct {
	Kernel []Line    `json:"kernel,omitempty"`
	Lost   int       `json:"kernel_left_out,omitempty"` // lines beyond the limit
	Dumps  []DumpRef `json:"dumps,omitempty"`
}

// Line is a line of the kernel's log about a device or a process of the task.
type Line struct {
	At  time.Time `json:"at"`
	GPU string    `json:"gpu,omitempty"`
	PID int       `json:"pid,omitempty"`
	// Own reports that it names no process of others, so that the task's user may read it.
	Own  bool   `json:"own,omitempty"`
	Text string `json:"text"`
}

// DumpRef describes the driver's dump of a GPU.
type DumpRef struct {
	GPU    string `json:"gpu"`
	File   string `json:"file,omitempty"`   // in the store; "" if it was not kept
	Digest string `json:"sha256,omitempty"` // of the kept bytes, uncompressed
	Size   int64  `json:"size,omitempty"`   // kept bytes, uncompressed
	Cut    bool   `json:"cut,omitempty"`    // the dump was larger
	Source string `json:"source"`           // its path on the machine that has the driver
	Why    string `json:"why,omitempty"`    // it was not kept
}

// Text describes the dump: its file and digest, or where it was.
func (d DumpRef) Text() string {
	if d.File == "" {
		return d.Source + ": " + d.Why
	}
	return fmt.Sprintf("%s, %d bytes, sha256 %s", d.File, d.Size, d.Digest)
}

// Record is a whole record.
type Record struct {
	Head    Head
	Machine []Sample            // see Counters
	GPUs    map[string][]Sample // by Head.GPUs' names; see GPUCounters
	Events  []Event
	// Evidence is the last that was written before the end; End has all.
	Evidence Evidence
	End      *End // nil while the task runs
	Damaged  bool // bytes after the last valid part were left out
}

// Failed reports whether the task ended without success.
func (r *Record) Failed() bool { return r.End != nil && r.End.failed() }

func (e *End) failed() bool { return e.Ending != NoStatus && (e.Exit == nil || *e.Exit != 0) }

// Last returns the time of the last reading, or the start.
func (r *Record) Last() time.Time {
	last := r.Head.Started.UnixMilli()
	if n := len(r.Machine); n > 0 {
		last = max(last, r.Machine[n-1].At)
	}
	for _, g := range r.GPUs {
		if n := len(g); n > 0 {
			last = max(last, g[n-1].At)
		}
	}
	return time.UnixMilli(last).UTC()
}

// Ended returns the end, or the last reading of a task that runs.
func (r *Record) Ended() time.Time {
	if r.End != nil {
		return r.End.Ended
	}
	return r.Last()
}
