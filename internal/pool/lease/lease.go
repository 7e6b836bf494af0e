// Package lease gives each GPU to one task, container of another engine, pod or run. A GPU never
// has two holders, and no GPU stays leased after its holder has ended. The state is files
// below /run and the kernel's process tables. No daemon is needed, and no end of a task or
// container must be reported.
//
// A record in a GPU's file names its holder. It is valid only while a process proves it:
// the runc call in the record, or a process that this call started in the container. No
// such process is known for a pod, so its record is valid until ReleasePod. All decisions
// and changes are made with the files of the GPUs locked, for milliseconds. After kill -9 a
// record remains that no process proves.
//
// The package is linked into runc-amd-wrapper, and so needs only the standard library,
// golang.org/x/sys and the wrapper's own JSON.
package lease

import (
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// DefaultDir is the directory of leases. It is below /run, so that a reboot ends them.
const DefaultDir = wellknown.RunDir + "/gpu-leases"

// Leases holds the leases of one unit.
type Leases struct {
	Dir  string   // DefaultDir, except in tests; its parent must exist
	GPUs []string // names of the unit's GPUs, which are plain file names; their order defines the indexes below
	// Links[i][j] rates the link of GPUs i and j: LinkSame, LinkXGMI, LinkNUMA or 0. Empty
	// means not known.
	Links [][]int
	// Missing names GPUs that the unit had. A task may wait for them as for excluded ones.
	Missing []string
	// Label names the GPU with an index in refusals. nil means index and name.
	Label func(gpu int) string

	// Replaced in tests. Zero values mean the real ones.
	Proc   string // /proc
	Cgroup string // /sys/fs/cgroup
	Now    func() time.Time
	Euid   uint32

	nested func(pid int) (bool, error) // replaces search.isNested

	pid  int               // of this process
	step func(next string) // called before each change of a file; may never return
}

// Weights of Leases.Links. Higher is better.
const (
	LinkNUMA = 1  // on the same NUMA node
	LinkXGMI = 8  // one XGMI hop
	LinkSame = 64 // partitions of the same GPU
)

// Kind is the kind of a lease's holder.
type Kind string

// The kinds of holders, and how long their leases last.
const (
	// of Concourse: until the processes that came by exec have ended, as the first one is
	// idle
	Task      Kind = "task"
	Container Kind = "container" // of another engine: until its first process ends, which does the work
	Pod       Kind = "pod"       // of a device plugin: until ReleasePod
	Claimed   Kind = "claim"     // of a claim of Kubernetes: until ReleaseClaim
	Run       Kind = "run"       // of gpukit run: until its process and those of its control group have ended
)

// Call describes the wrapper's call that leases. It becomes runc by execve, with the same
// process id and start time.
type Call struct {
	Container string // runc's id of the container
	Bundle    string // absolute
	PidFile   string // absolute; runc's create writes the pid of init to it
	// Cgroup is part of an element of the path of all its processes in /proc/PID/cgroup:
	// "4f1c" is in "/garden/4f1c" and in "/system.slice/runc-4f1c.scope".
	Cgroup string
	// StepHash is equal for reruns of a step. "" means not known.
	StepHash   string
	Program    string // digest of what the task's own process runs, see Digest; "" if not known
	OwnProcess bool   // the first process does the work: the holder is a Container, otherwise a Task
	PID        int
}

// record returns the content of a lease by this process, without boot and times.
func (c Call) record(self process) record {
	r := record{
		kind: c.kind(), container: c.Container, bundle: c.Bundle, pidFile: c.PidFile, cgroup: c.Cgroup,
		calls: []process{self}, phase: created, stepHash: c.StepHash, program: c.Program,
	}
	if c.OwnProcess {
		r.phase = holding
	}
	return r
}

func (c Call) kind() Kind {
	if c.OwnProcess {
		return Container
	}
	return Task
}

// Want describes the GPUs that a task requests.
type Want struct {
	Of    []int // indexes of the allowed GPUs; nil means any
	Count int   // how many of these, at least 1
	// Excluded lists GPUs that are not leased now, each once.
	Excluded []Excluded
	// Avoid lists GPUs that a rerun of a step gets only if no others are free.
	Avoid []Avoid
	// Taken has the percent of a GPU's memory that others use, by index. GPUs with the most
	// are leased last.
	Taken map[int]uint64
	// Unready returns why a free GPU cannot be leased yet, as a text that follows its name,
	// and "" if it can. nil means that all can.
	Unready func(gpu int) string
}

// Avoid names a GPU on which a task had a fault.
type Avoid struct {
	GPU      int    // index
	StepHash string // of the task
}

// Excluded names a GPU that is not leased, even if it is free.
type Excluded struct {
	GPU    int    // index
	Reason string // follows its name: "has been quarantined since ..."
}

// State describes one GPU's lease.
type State struct {
	GPU       string
	Held      bool
	Kind      Kind      // of the current or last holder; "" if none is known
	Container string    // the holder's name: runc's id; for a pod namespace/pod/container or StartingPod; see Claim
	Engine    string    // of a container: docker, podman, containerd/<namespace>; "" if not known
	Title     string    // of a run, for people
	StepHash  string    // of its task or run, see Call
	Program   string    // of its task, see Call
	Since     time.Time // of the lease
	PID       int       // of the container's init or of the run, 0 if it has ended
	TaskEnded bool      // the task's own process has ended, and others of its container hold the GPU
	Doubt     string    // why the GPU is treated as held although this cannot be verified; usually ""
}

// Counters counts since the boot. HeldMS, in milliseconds, is a sum over GPUs. A lease is
// added when a call first finds that it has ended, which can be later than its end.
type Counters struct {
	Granted, Busy, Impossible uint64 // Busy and Impossible are refusals
	HeldMS                    uint64
}

func (l Leases) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}

// before calls step, so that a test can end the process here.
func (l Leases) before(verb, file string) {
	if l.step != nil {
		l.step(verb + " " + file)
	}
}
