// Package lease gives GPUs to tasks, containers of other engines and pods for their own:
// no GPU is ever held by two of them, and none stays held by one that is gone. State is
// files below /run and the kernel's own knowledge of processes; nothing runs in between,
// and nobody has to say that a task or container has ended.
//
// A record in a GPU's file says who got it. It counts only as long as a process
// bears it out: the runc call that it names, or what that call started in the
// container. No process that could be known here bears a pod out: its record counts until
// its keeper gives it back. All that decides or changes is done with the files of the GPUs
// locked, for milliseconds; kill -9 leaves records that nothing bears out.
//
// It is linked into runc-amd-wrapper, and so needs the standard library,
// golang.org/x/sys and the wrapper's own JSON only.
package lease

import (
	"time"
)

// DefaultDir is where leases lie. Below /run, so that a reboot ends them.
const DefaultDir = "/run/concourse-gpu"

// Leases are those of one unit.
type Leases struct {
	Dir  string   // DefaultDir, if not a test's; its parent has to be there
	GPUs []string // names of the unit's GPUs, each a plain file name; the order gives the indexes below
	// Links[i][j] tells how well GPUs i and j are joined: LinkSame, LinkXGMI,
	// LinkNUMA or 0. Empty: not known.
	Links [][]int
	// Label is how a refusal names the GPU with an index; nil: by index and name.
	Label func(gpu int) string

	// What a test replaces; zero values mean the real thing.
	Proc   string // /proc
	Cgroup string // /sys/fs/cgroup
	Now    func() time.Time
	Euid   uint32

	nested func(pid int) (bool, error) // in place of search.below

	pid  int               // of this process
	step func(next string) // called before each change of a file; may never return
}

// Weights of Leases.Links, the better the greater.
const (
	LinkNUMA = 1  // on the same NUMA node
	LinkXGMI = 8  // one XGMI hop
	LinkSame = 64 // partitions of the same GPU
)

// Kind says what holds a lease.
type Kind string

// The kinds of holders, and what a lease lasts as long as.
const (
	Task      Kind = "task"      // of Concourse's: what came by exec, its first process being idle
	Container Kind = "container" // of another engine: its first process, which is the work
	Pod       Kind = "pod"       // until its keeper calls GiveBack
)

// Call is the wrapper's call that leases: it becomes runc by execve, with the
// same process id and start time.
type Call struct {
	Container string // runc's id of the container
	Bundle    string // absolute
	PidFile   string // absolute; where runc's create writes the pid of init
	// Cgroup is what an element of the path of each of its processes in
	// /proc/PID/cgroup has: "4f1c" is in "/garden/4f1c" and in
	// "/system.slice/runc-4f1c.scope".
	Cgroup string
	// Like is the same for tasks that look the same; "" is not known.
	StepHash string
	Own      bool // the container's first process is its work: it is a Container, else a Task
	PID      int
}

func (c Call) record(boot string, self process, now time.Time) record {
	r := record{
		kind: c.kind(), boot: boot, container: c.Container, bundle: c.Bundle, pidFile: c.PidFile, cgroup: c.Cgroup,
		calls: []process{self}, phase: created, since: now, called: now, like: c.StepHash,
	}
	if c.Own {
		r.phase = holding
	}
	return r
}

func (c Call) kind() Kind {
	if c.Own {
		return Container
	}
	return Task
}

// Want is what a task asks for.
type Want struct {
	Of    []int // indexes of the GPUs it may get; nil: any
	Count int   // how many of these, 1 or more
	// Withheld are GPUs that nobody gets now, each once.
	Withheld []Excluded
	// Avoid are GPUs that a task like one of them gets only where no others are free.
	Avoid []Avoid
	// Unready says why a GPU that nobody holds can't be given yet, after its name; "" where
	// it can. nil: all can.
	Unready func(gpu int) string
}

// Avoid is a GPU on which a task met a fault.
type Avoid struct {
	GPU      int    // index
	StepHash string // of the task
}

// Withheld is a GPU that nobody gets, though no task holds it.
type Excluded struct {
	GPU    int    // index
	Reason string // after its name: "is withheld since ..."
}

// State is what is known of one GPU's lease.
type State struct {
	GPU       string
	Held      bool
	Kind      Kind      // of who holds it, or held it last; "" when nobody is known
	Container string    // its name: runc's id, of a pod namespace/pod/container or PodToCome
	Engine    string    // of a container: docker, podman, containerd/<namespace>; "" not known
	Like      string    // of its task, see Call
	Since     time.Time // of the lease
	PID       int       // of the container's init, 0 when it has none
	TaskEnded bool      // the task's own process is gone, and others of its container hold the GPU
	Doubt     string    // why it counts as held though that can't be seen; "" usually
}

// Counters since the boot. HeldMS, in milliseconds, is summed over GPUs, and added
// when a call first finds that a lease has ended, which can be later than it did.
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

// before is where a test may end the process.
func (l Leases) before(verb, file string) {
	if l.step != nil {
		l.step(verb + " " + file)
	}
}
