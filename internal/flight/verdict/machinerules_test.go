package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

// reads returns a task with changed readings of the machine.
func reads(change func(second float64, v values)) task { return task{machine: change} }

// waits returns a task that waited for seconds of its time.
func waits(counter int, lasted, seconds float64) task {
	return task{seconds: lasted, machine: func(second float64, v values) { v.set(counter, second/lasted*seconds*1e6) }}
}

// waitLimits returns the limits that all rules on waiting have.
func waitLimits(code string, counter int, strongest string) []limit {
	return []limit{
		{code, "share of the time", func(v float64) task { return waits(counter, 100, v*100) }, .19, .2, none, sign},
		{code, "share that is a cause", func(v float64) task { return waits(counter, 100, v*100) }, .49, .5, sign, strongest},
		{code, "seconds", func(v float64) task { return waits(counter, 8, v) }, 4, 5, none, strongest},
	}
}

func TestLimitsOfRulesOnTheMachine(t *testing.T) {
	checkLimits(t, waitLimits("memory-stalled", taskrecord.MemoryStallFull, cause))
	checkLimits(t, waitLimits("io-stalled", taskrecord.IOStallFull, sign))
	checkLimits(t, []limit{
		{"cpu-throttled", "share of the periods", quota, .19, .2, none, sign},
		{"cpu-throttled", "share that is a cause", quota, .49, .5, sign, cause},
		{"cpu-starved", "share of the time", func(v float64) task { return starved(v, .1, .4) }, .19, .2, none, sign},
		{"cpu-starved", "share that is a cause", func(v float64) task { return starved(v, .1, .4) }, .49, .5, sign, cause},
		{"cpu-starved", "CPU of the task against the machine's", func(v float64) task { return starved(.9, 1-v, 1) },
			.5, .51, none, cause},
		{"disk-full", "bytes free", func(v float64) task { return disk(100*gibi-v, 1000) }, 99*gibi + 512*mebi, 99*gibi + 513*mebi,
			none, cause},
		{"disk-full", "inodes in use", func(v float64) task { return disk(50*gibi, 100-v) }, 84, 85, none, cause},
		{"disk-full", "seconds of a full disk before the end", func(v float64) task {
			return task{seconds: 100, machine: func(second float64, m values) {
				m.set(taskrecord.DiskSize, 100*gibi)
				m.set(taskrecord.DiskFree, 50*gibi)
				if second <= v {
					m.set(taskrecord.DiskFree, 0)
				}
			}}
		}, 39, 40, none, cause},
		{"oom-limit", "memory of 10 GiB without the kernel's log", killedAt, 8.9 * gibi, 9.1 * gibi, none, cause},
		{"oom-outside", "memory below 10 GiB without the kernel's log", func(v float64) task { return killedAt(10*gibi - v) },
			.9 * gibi, 1.1 * gibi, none, cause},
		{"containerd-ended", "seconds before the end", func(v float64) task {
			return task{exit: 143, seconds: 300, events: []taskrecord.Event{event(300-121+v, taskrecord.DaemonEnded)}}
		}, 0, 1, none, cause},
		{"worker-ended", "seconds after the end", func(v float64) task {
			return task{exit: 143, events: []taskrecord.Event{event(121-v, taskrecord.WorkerEnded)}}
		}, 0, 1, none, cause},
		{"web-away", "seconds", away, 29, 30, none, cause},
	})
}

// quota returns a task that used up its CPU quota in a share of the periods.
func quota(share float64) task {
	return task{seconds: 100, machine: func(second float64, v values) {
		v.set(taskrecord.CPUPeriods, second*10)
		v.set(taskrecord.CPUThrottledPeriods, second*10*share)
	}}
}

// starved returns a task that waited for a share of its time, with CPUs used by the task and
// by the whole machine.
func starved(share, own, busy float64) task {
	return task{seconds: 100, machine: func(second float64, v values) {
		v.set(taskrecord.CPUStallFull, second*share*1e6)
		v.set(taskrecord.CPUUsage, second*own*1e6)
		v.set(taskrecord.MachineCPUBusy, second*busy*1e6)
	}}
}

// disk returns a task with a disk of 100 GiB.
func disk(free, inodes float64) task {
	return reads(func(_ float64, v values) {
		v.set(taskrecord.DiskSize, 100*gibi)
		v.set(taskrecord.DiskFree, free)
		v.set(taskrecord.InodesFree, inodes)
	})
}

// killedAt returns a task with a limit of 10 GiB that the kernel killed with used memory.
func killedAt(used float64) task {
	return task{exit: 137, head: func(h *taskrecord.Head) { h.Memory = 10 * gibi }, machine: func(second float64, v values) {
		v.set(taskrecord.MemoryPeak, used)
		if second > 30 {
			v.set(taskrecord.MemoryLimitHits, 1)
			v.set(taskrecord.OOMKills, 1)
		}
	}}
}

// away returns a task that was stopped after seconds without a web.
func away(seconds float64) task {
	return task{exit: 143, seconds: 200, machine: func(second float64, v values) {
		v.set(taskrecord.WebConnections, 1)
		if second > 200-seconds {
			v.set(taskrecord.WebConnections, 0)
		}
	}}
}

// with adds readings of the neighbours to a task's readings.
func with(c task, change func(second float64, v values)) task {
	before := c.machine
	c.machine = func(second float64, v values) {
		before(second, v)
		change(second, v)
	}
	return c
}

func TestNeighbourIsNamedOnlyIfItUsedMore(t *testing.T) {
	sum := func(counter int, rate float64) func(second float64, v values) {
		return func(second float64, v values) { v.set(counter, second*rate) }
	}
	memory := func(neighbour, machine float64) func(float64, values) {
		return func(_ float64, v values) {
			v.set(taskrecord.MemoryUsed, 10*gibi)
			v.set(taskrecord.NeighbourMemory, neighbour)
			v.set(taskrecord.NeighboursMemory, neighbour)
			v.set(taskrecord.MachineMemory, machine)
		}
	}
	outside := killedAt(0)
	outside.head = nil
	written := with(slowDisk(.9), sum(taskrecord.DiskWritten, mebi))
	stalled := waits(taskrecord.MemoryStallFull, 100, 90)
	hungry := starved(.9, .1, 1.1)
	for name, c := range map[string]struct {
		code string
		task task
		kind verdict.Kind
	}{
		"OOM, neighbour with as much":       {"oom-outside", with(outside, memory(10*gibi, 64*gibi)), verdict.Machine},
		"OOM, neighbour with more":          {"oom-outside", with(outside, memory(10*gibi+1, 64*gibi)), verdict.Neighbour},
		"OOM, half of the machine":          {"oom-outside", with(outside, memory(0, 20*gibi)), verdict.Task},
		"OOM, less than half":               {"oom-outside", with(outside, memory(0, 20*gibi+2)), verdict.Machine},
		"memory, neighbours with as much":   {"memory-stalled", with(stalled, memory(10*gibi, 64*gibi)), verdict.Machine},
		"memory, neighbours with more":      {"memory-stalled", with(stalled, memory(10*gibi+1, 64*gibi)), verdict.Neighbour},
		"CPU, neighbours with less than .5": {"cpu-starved", with(hungry, sum(taskrecord.NeighboursCPU, .49e6)), verdict.Machine},
		"CPU, neighbours with half":         {"cpu-starved", with(hungry, sum(taskrecord.NeighboursCPU, .5e6)), verdict.Neighbour},
		"disk, neighbours with three times": {"io-stalled", with(written, sum(taskrecord.NeighboursIO, 3*mebi)), verdict.Machine},
		"disk, neighbours with more":        {"io-stalled", with(written, sum(taskrecord.NeighboursIO, 3*mebi+1)), verdict.Neighbour},
		"disk, neighbours with 1 MiB":       {"io-stalled", with(slowDisk(.9), sum(taskrecord.NeighboursIO, mebi/60.)), verdict.Machine},
		"disk, neighbours with 2 MiB":       {"io-stalled", with(slowDisk(.9), sum(taskrecord.NeighboursIO, mebi/30.)), verdict.Neighbour},
	} {
		v := verdict.Decide(c.task.record())
		require.Equal(t, c.code, v.Reasons[0].Code, name)
		require.Equal(t, c.kind, v.Reasons[0].Kind, name)
	}
}

func TestScopeOfTheKernelDecidesWhoseMemoryRanOut(t *testing.T) {
	for scope, code := range map[string]string{taskrecord.ScopeTask: "oom-limit", taskrecord.ScopeParent: "oom-outside",
		taskrecord.ScopeMachine: "oom-outside"} {
		for _, used := range []float64{gibi, 10 * gibi} { // the limit has 10 GiB
			c := killedAt(used)
			c.events = []taskrecord.Event{{At: at(60), Kind: taskrecord.OOMKill, Detail: scope}}
			require.Equal(t, code, verdict.Decide(c.record()).Reasons[0].Code, scope)
		}
	}
}

// A task that ended by itself went on without the worker's process or the web.
func TestEndOfConcourseIsNotACauseForATaskWithAnExitStatus(t *testing.T) {
	failed := away(60)
	failed.exit = 1
	require.Equal(t, sign, strength(failed, "web-away"))
	require.Equal(t, none, strength(reads(func(_ float64, v values) { v.set(taskrecord.WebConnections, 0) }), "web-away"),
		"the worker never had a web")
	for kind, code := range map[taskrecord.EventKind]string{taskrecord.WorkerEnded: "worker-ended",
		taskrecord.DaemonEnded: "containerd-ended"} {
		require.Equal(t, sign, strength(task{events: []taskrecord.Event{event(30, kind)}}, code))
	}
}

func TestHardwareErrorAfterTheEndIsOfALaterTask(t *testing.T) {
	for second, want := range map[float64]string{60: cause, 61: none} {
		c := task{events: []taskrecord.Event{{At: at(second), Kind: taskrecord.HardwareFail, Detail: "an error of a disk"}}}
		require.Equal(t, want, strength(c, "hardware-error"))
	}
}
