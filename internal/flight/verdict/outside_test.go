package verdict_test

import (
	"math"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// Runs and containers have no build, no worker and no action of Juju.
var ofConcourse = regexp.MustCompile(`\b(?i:tasks?|builds?|workers?|steps?|fly|juju|concourse|gpu-[a-z-]+|max-tasks)\b`)

// outside returns the record of a run or container.
func outside(kind lease.Kind, c task) *taskrecord.Record {
	r := c.record()
	r.Head.Kind = kind
	return r
}

func TestReasonsOutsideConcourseNameNothingOfIt(t *testing.T) {
	seen := map[string]bool{}
	check := func(r *taskrecord.Record) {
		for _, reason := range verdict.Decide(r).Reasons {
			seen[reason.Code] = true
			for _, text := range []string{reason.Text, reason.Fix} {
				require.NotRegexp(t, ofConcourse, text, reason.Code)
			}
		}
	}
	limit := func(h *taskrecord.Head) {
		h.Memory = gibi
		h.GPUs[0].Memory = &taskrecord.MemoryBefore{Total: whole, Ended: whole / 2, Others: whole / 4,
			Text: "python3 has 16 GiB"}
	}
	all := func(second float64, v values) { // each sum grows by half of the time
		for i := range v {
			v.set(i, second*.5e6)
		}
		v.set(taskrecord.MachineMemory, 64*gibi)
		v.set(taskrecord.MemoryPeak, .95*gibi)
		v.set(taskrecord.DiskSize, 100*gibi)
		v.set(taskrecord.DiskFree, math.Max(0, 90-second*3)*gibi)
		v.set(taskrecord.DNSWaiting, 1)
		v.set(taskrecord.TCPOpen, 0)
		v.set(taskrecord.UDPReceived, 0)
		v.set(taskrecord.NeighbourMemory, 8*gibi)
	}
	slow := func(second float64, v values) {
		v.set(taskrecord.CPUUsage, second*1e3)
		v.set(taskrecord.NetReceived, second*1e4)
		v.set(taskrecord.TCPOpen, 1)
		v.set(taskrecord.CPUStall, second*.9e6)
		v.set(taskrecord.CPUStallFull, second*.9e6)
		v.set(taskrecord.MachineCPUBusy, second*9e6)
		v.set(taskrecord.MemoryStallFull, second*.9e6)
		v.set(taskrecord.IOStallFull, second*.9e6)
	}
	lost := func(second float64, v values) {
		v.set(taskrecord.TCPSegments, second*100)
		v.set(taskrecord.TCPResent, second*10)
		v.set(taskrecord.CPUPeriods, second*10)
		v.set(taskrecord.CPUThrottledPeriods, second*6)
	}
	still := func(second float64, v values) { v.set(taskrecord.CPUUsage, 0) }
	hot := func(second float64, v values) {
		v.set(taskrecord.Thermal, 900)
		v.set(taskrecord.Uncorrectable, second)
		v.set(taskrecord.Alive, 0)
		v.set(taskrecord.Hanging, 1)
	}
	events := []taskrecord.Event{{At: at(55), Kind: taskrecord.OOMKill, Detail: taskrecord.ScopeParent},
		{At: at(55), Kind: taskrecord.HardwareFail, Detail: "an error of a disk"},
		{At: at(55), Kind: taskrecord.GPUReset, GPU: gpu0}}
	own := []taskrecord.Event{{At: at(55), Kind: taskrecord.OOMKill, Detail: taskrecord.ScopeTask}}
	pace := []taskrecord.Pace{{Seconds: 10, CPU: 10}, {Seconds: 10, CPU: 10}}
	for _, kind := range []lease.Kind{lease.Run, lease.Container} {
		for _, exit := range []int{1, 124, 134, 137, 139, 143} {
			for _, c := range []task{{}, {machine: all, gpu: hot, head: limit, events: events}, {machine: slow},
				{machine: lost}, {machine: still, events: own},
				{seconds: 200, machine: still, gpu: func(_ float64, v values) { v.set(taskrecord.Busy, 1000) }}} {
				c.exit = exit
				check(outside(kind, c))
				r := outside(kind, c)
				r.End.Earlier = pace
				check(r)
			}
		}
		for _, ending := range []taskrecord.Ending{taskrecord.Reboot, taskrecord.Removed, taskrecord.Unseen} {
			check(outside(kind, task{ending: ending}))
		}
	}
	for _, rule := range verdict.Rules {
		if rule.Kind != verdict.Concourse && rule.Code != "not-started" {
			require.True(t, seen[rule.Code], "no record has %s", rule.Code)
		}
	}
}

func TestFailureOfARunItselfIsOfTheRun(t *testing.T) {
	for kind, want := range map[lease.Kind]struct {
		kind verdict.Kind
		text string
	}{
		"":              {verdict.Task, "the task itself failed with exit status 1"},
		lease.Task:      {verdict.Task, "the task itself failed with exit status 1"},
		lease.Run:       {verdict.Run, "the run itself failed with exit status 1"},
		lease.Container: {verdict.Container, "the container itself failed with exit status 1"},
	} {
		v := verdict.Decide(outside(kind, task{}))
		require.Equal(t, want.kind, v.Kind)
		require.Equal(t, want.text, v.Reasons[0].Text)
	}
}
