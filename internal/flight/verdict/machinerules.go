package verdict

import (
	"fmt"
	"math"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

// Limits of the rules on the machine.
const (
	moderate   = .2  // share of the time that makes a sign
	severe     = .5  // that makes a cause
	leastStall = 5.  // seconds
	atEnd      = 60. // seconds before the end

	diskShare  = .02    // of the disk or of its inodes: this much space went away in the task
	diskInodes = 10_000 // free at the begin

	writtenLate = 30. // seconds: dirty_expire_centisecs
)

var machineRules = []Rule{
	{Code: "power-loss", Kind: Machine, find: powerLoss,
		When:   "the boot id is another one, and the record has no end",
		Source: "random(4)",
		Fix:    runAgain + " Look at the power and the log of the machine's last boot."},
	{Code: "hardware-error", Kind: Machine, find: hardwareError,
		When:   "the kernel logged a machine check, or an error of memory or disk",
		Source: "mce, edac, blk-core.c",
		Fix:    "Replace the part that the kernel's line names. " + runAgain},
	{Code: "disk-full", Kind: Machine, find: diskFull,
		When: "less than 0.5 %, 64 MiB (5 % of a small disk) or 16 inodes were free in the last minute; `task` or " +
			"`neighbour` if it had 2 % free before and they wrote most",
		Source: "statfs(2)",
		Fix:    "Free space on the machine, or give it a larger disk. " + runAgain},
}

var memoryRules = []Rule{
	{Code: "oom-limit", Kind: Task, find: oomLimit,
		When:   "the kernel killed a process of the task, which had reached its own memory limit",
		Source: "cgroup-v2.rst",
		Fix:    "Raise container_limits.memory of the task, or use less memory.",
		FixRun: "Raise the memory limit of the container or service, or use less memory."},
	{Code: "oom-outside", Kind: Machine, find: oomOutside,
		When:   "the same below its limit; `neighbour` if one had more memory, `task` if it had half of the machine's",
		Source: "cgroup-v2.rst",
		Fix:    "Limit the memory of tasks (container_limits), send fewer to a worker, or add memory. " + runAgain,
		FixRun: "Run less at once, raise the limit of the service that starts it, or add memory. " + runAgain},
}

var slowRules = []Rule{
	{Code: "memory-stalled", Kind: Machine, find: memoryStalled, slows: true,
		When:   "slow: all processes waited for memory, below the task's limit; `neighbour` if the others had more",
		Source: "psi.rst",
		Fix:    "Send fewer tasks to the worker, or add memory. " + runAgain,
		FixRun: "Run less at once, or add memory. " + runAgain},
	{Code: "cpu-throttled", Kind: Machine, find: cpuThrottled, slows: true,
		When:   "slow: the CPU quota of its group was used up",
		Source: "cgroup-v2.rst",
		Fix:    "Raise the CPU quota of the worker's machine or service. " + runAgain,
		FixRun: "Raise the CPU quota of the machine, the container or the service. " + runAgain},
	{Code: "cpu-starved", Kind: Machine, find: cpuStarved, slows: true,
		When:   "slow: it waited for a CPU, and others used more CPU time; `neighbour` if containers used half of that",
		Source: "psi.rst",
		Fix:    "Send fewer tasks to the worker (max-tasks). " + runAgain,
		FixRun: "Run less at once. " + runAgain},
	{Code: "io-stalled", Kind: Machine, find: ioStalled, slows: true,
		When: "slow: all processes waited for the disk; a cause only as `neighbour`, if the others moved three " +
			"times as many bytes",
		Source: "psi.rst",
		Fix:    "Use a faster disk for the work folder, or send fewer tasks to the worker. " + runAgain,
		FixRun: "Use a faster disk, or run less at once. " + runAgain},
}

func powerLoss(f *facts) []finding {
	return one(f.End.Ending == taskrecord.Reboot, finding{cause: true,
		text: fmt.Sprintf("the machine restarted while %s ran; the last reading is of %s", f.name(),
			f.ended.UTC().Format("2006-01-02 15:04:05 UTC")),
		numbers: map[string]float64{"seconds": f.lasted}})
}

// hardwareError prefers an error that can have made the task fail to an older one.
func hardwareError(f *facts) []finding {
	e, ok := f.event(0, taskrecord.HardwareFail)
	for _, later := range f.Events {
		if later.Kind == taskrecord.HardwareFail && !f.recent(e.At) && !later.At.After(f.ended) {
			e = later
		}
	}
	return one(ok, finding{cause: f.recent(e.At), text: "the kernel logged: " + e.Detail})
}

func diskFull(f *facts) []finding {
	last := tail(f.Machine, atEnd)
	free, ok := least(last, taskrecord.DiskFree)
	whole, _ := most(last, taskrecord.DiskSize)
	inodes, known := least(last, taskrecord.InodesFree)
	space := wellknown.Space{Size: uint64(whole), Free: math.MaxUint64, InodesFree: math.MaxUint64}
	if ok {
		space.Free = uint64(free)
	}
	if known {
		space.InodesFree = uint64(inodes)
	}
	return one(space.Full(), finding{kind: f.diskFiller(), cause: true,
		text: fmt.Sprintf("the disk was full: %s of %s free, %.0f inodes", size(free), size(whole),
			inodes),
		numbers: map[string]float64{"bytes_free": free, "bytes": whole, "inodes_free": inodes,
			"bytes_written": f.grown(taskrecord.DiskWritten)}})
}

// diskFiller returns who filled the disk, or "" if it had little space before the task, or if
// programs outside containers filled it. The kernel counts bytes when it writes them, up to
// writtenLate later, so a task beside neighbours that wrote little has filled it in that time.
func (f *facts) diskFiller() Kind {
	free, _ := first(f.Machine, taskrecord.DiskFree)
	left, _ := least(f.Machine, taskrecord.DiskFree)
	size, _ := most(f.Machine, taskrecord.DiskSize)
	inodes, _ := first(f.Machine, taskrecord.InodesFree)
	rest, _ := least(f.Machine, taskrecord.InodesFree)
	own, others := f.grown(taskrecord.DiskWritten), f.grown(taskrecord.NeighboursWritten)
	fell, counted := free-left, 0.
	if before, ok := least(f.Machine[:len(f.Machine)-len(tail(f.Machine, writtenLate))], taskrecord.DiskFree); ok {
		counted = free - before
	}
	switch {
	case fell < diskShare*size && (inodes < diskInodes || rest > diskShare*inodes):
		return ""
	case own+others < counted/2:
		return ""
	case own > others || others < fell/2 && fell >= diskShare*size || others < 1<<20:
		return Task
	}
	return Neighbour
}

func (f *facts) memoryNumbers() map[string]float64 {
	used, _ := most(f.Machine, taskrecord.MemoryUsed)
	whole, _ := most(f.Machine, taskrecord.MachineMemory)
	neighbour, _ := most(f.Machine, taskrecord.NeighbourMemory)
	kills, _ := most(f.Machine, taskrecord.OOMKills)
	return map[string]float64{"bytes": used, "limit_bytes": float64(f.Head.Memory), "machine_bytes": whole,
		"largest_neighbour_bytes": neighbour, "kills": kills}
}

func oomLimit(f *facts) []finding {
	killed, scope := f.oomKilled()
	n := f.memoryNumbers()
	own := scope == taskrecord.ScopeTask || scope == "" && f.ownLimit()
	return one(killed && own, finding{cause: true, numbers: n,
		text: fmt.Sprintf("%s reached its own memory limit of %s, and the kernel killed a process", f.name(),
			size(float64(f.Head.Memory)))})
}

func oomOutside(f *facts) []finding {
	killed, scope := f.oomKilled()
	if !killed || scope == taskrecord.ScopeTask || scope == "" && f.ownLimit() {
		return nil
	}
	n := f.memoryNumbers()
	kind := Machine
	switch {
	case n["largest_neighbour_bytes"] > n["bytes"]:
		kind = Neighbour
	case n["machine_bytes"] > 0 && n["bytes"] >= .5*n["machine_bytes"]:
		kind = Task
	}
	short := "the machine"
	if scope == taskrecord.ScopeParent && !f.Head.OfConcourse() {
		short = "the service or group that " + f.name() + " is in"
	}
	return []finding{{kind: kind, cause: true, numbers: n,
		text: fmt.Sprintf("%s ran out of memory and the kernel killed a process of %s, which had %s at most; the "+
			"largest neighbour had %s", short, f.name(), size(n["bytes"]), size(n["largest_neighbour_bytes"]))}}
}

// stall returns a finding for a share of the time.
func (f *facts) stall(kind Kind, counter int, text string, numbers map[string]float64) []finding {
	share, seconds := shareOf(f.Machine, counter)
	if lately, _ := shareOf(f.last(f.Machine), counter); !f.stopped() && lately < moderate {
		return nil
	}
	all := map[string]float64{"seconds": seconds, "share": share}
	for k, v := range numbers {
		all[k] = v
	}
	return one(share >= moderate && seconds >= leastStall, finding{kind: kind, cause: share >= severe, numbers: all,
		text: f.name() + fmt.Sprintf(text, seconds, share*100)})
}

func memoryStalled(f *facts) []finding {
	if f.ownLimit() {
		return nil
	}
	n := f.memoryNumbers()
	kind := Machine
	if others, _ := most(f.Machine, taskrecord.NeighboursMemory); others > n["bytes"] {
		kind = Neighbour
	}
	return f.stall(kind, taskrecord.MemoryStallFull, " waited %.0f s for memory, %.0f %% of the time", n)
}

func cpuThrottled(f *facts) []finding {
	periods, throttled := f.grown(taskrecord.CPUPeriods), f.grown(taskrecord.CPUThrottledPeriods)
	if periods == 0 {
		return nil
	}
	share := throttled / periods
	seconds := share * span(f.Machine)
	return one(share >= moderate && seconds >= leastStall, finding{cause: share >= severe,
		numbers: map[string]float64{"share": share, "seconds": seconds, "periods": periods},
		text:    fmt.Sprintf("a CPU quota held %s back in %.0f %% of the periods", f.name(), share*100)})
}

func cpuStarved(f *facts) []finding {
	own, busy := f.grown(taskrecord.CPUUsage), f.grown(taskrecord.MachineCPUBusy)
	if busy == 0 || own >= busy/2 || f.grown(taskrecord.CPUThrottledPeriods) > 0 {
		return nil
	}
	kind := Machine
	if f.grown(taskrecord.NeighboursCPU) >= (busy-own)/2 {
		kind = Neighbour
	}
	counter := taskrecord.CPUStallFull
	if f.grown(counter) == 0 {
		counter = taskrecord.CPUStall
	}
	return f.stall(kind, counter, " waited %.0f s for a CPU that others used, %.0f %% of the time",
		map[string]float64{"cpu_seconds": own / 1e6, "machine_cpu_seconds": busy / 1e6})
}

// ioStalled returns a cause only if neighbours used the disk: a task that unpacks or syncs
// waits for the disk by itself.
func ioStalled(f *facts) []finding {
	if f.ownLimit() { // it reads its own pages again
		return nil
	}
	own := f.grown(taskrecord.DiskRead) + f.grown(taskrecord.DiskWritten)
	others := f.grown(taskrecord.NeighboursIO)
	kind := Machine
	if others > 3*own && others > 1<<20 {
		kind = Neighbour
	}
	found := f.stall(kind, taskrecord.IOStallFull, " waited %.0f s for the disk, %.0f %% of the time",
		map[string]float64{"bytes": own, "neighbours_bytes": others})
	for i := range found {
		found[i].cause = found[i].cause && kind == Neighbour
	}
	return found
}

var concourseRules = []Rule{
	{Code: "containerd-ended", Kind: Concourse, find: ended(taskrecord.DaemonEnded, "containerd"),
		When:   "containerd ended up to two minutes before the task, or a minute after",
		Source: "concourse-worker.service",
		Fix:    runAgain + " The log of the worker's service shows why it ended."},
	{Code: "worker-ended", Kind: Concourse, find: ended(taskrecord.WorkerEnded, "the worker's process"),
		When:   "the worker's process ended then",
		Source: "concourse-worker.service",
		Fix:    runAgain + " The log of the worker's service shows why it ended."},
	{Code: "web-away", Kind: Concourse, find: webAway,
		When:   "the web was not connected for 30 s of the last two minutes",
		Source: "proc_pid_net_tcp(5)",
		Fix:    "Look at the network between worker and web, and at the web. " + runAgain},
}

// nearEnd is the time between the end of a process of Concourse's and of a task that it
// can have ended.
const nearEnd = 2 * time.Minute

func ended(kind taskrecord.EventKind, name string) func(*facts) []finding {
	return func(f *facts) []finding {
		for _, e := range f.Events {
			if e.Kind != kind || f.ended.Sub(e.At) > nearEnd || e.At.Sub(f.ended) > time.Minute {
				continue
			}
			// A task that ended by itself afterwards went on without it.
			own := f.exit() > 0 && !f.stopped()
			return []finding{{cause: !own, text: name + " ended at " + e.At.UTC().Format("15:04:05 UTC"),
				numbers: map[string]float64{"seconds_before_end": f.ended.Sub(e.At).Seconds()}}}
		}
		return nil
	}
}

func webAway(f *facts) []finding {
	if had, ok := most(f.Machine, taskrecord.WebConnections); !ok || had == 0 {
		return nil
	}
	away := timeWith(tail(f.Machine, nearEnd.Seconds()), func(_, now taskrecord.Sample, _ float64) bool {
		v, ok := now.Get(taskrecord.WebConnections)
		return ok && v == 0
	})
	return one(away >= 30, finding{cause: f.exit() < 0 || f.stopped(),
		text:    fmt.Sprintf("the worker had no connection to a web for %.0f s", away),
		numbers: map[string]float64{"seconds": away}})
}
