package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

// onMemory returns a task of a minute on a GPU with this memory at the begin, and this much in
// use from a second on.
func onMemory(m taskrecord.MemoryBefore, before, peak, from float64) task {
	if m.Total == 0 {
		m.Total = whole
	}
	return task{head: func(h *taskrecord.Head) { h.GPUs[0].Memory = &m },
		gpu: func(second float64, v values) {
			v.set(taskrecord.VideoUsed, before)
			if second >= from {
				v.set(taskrecord.VideoUsed, max(before, peak))
			}
		}}
}

// left returns a task that begins with memory of an ended task and has at most peak.
func left(ended, peak float64) task {
	return onMemory(taskrecord.MemoryBefore{Ended: ended}, ended, peak, 30)
}

// beside returns a task beside a program with 56 of 64 GiB.
func beside(peak, from float64) task {
	return onMemory(taskrecord.MemoryBefore{Others: 56 * gibi, Text: "56 of 64 GiB are used by x, pid 7, of this machine"},
		56*gibi, peak*gibi, from)
}

func TestLimitsOfRulesOnMemory(t *testing.T) {
	const code, taken = "gpu-memory-leaked", "gpu-memory-taken"
	shared := func(c task, tasks float64) task {
		inner := c.gpu
		c.gpu = func(second float64, v values) { inner(second, v); v.set(taskrecord.Tasks, tasks) }
		return c
	}
	checkLimits(t, []limit{
		{code, "share of the memory", func(v float64) task { return left(v*whole, 0) }, .049, .051, none, sign},
		{code, "bytes of a small memory", func(v float64) task {
			return onMemory(taskrecord.MemoryBefore{Ended: v, Total: 4 * gibi}, v, 0, 30)
		}, 511 * mebi, 512 * mebi, none, sign},
		{code, "share that is a cause", func(v float64) task { return left(v*whole, 0) }, .49, .5, sign, cause},
		{code, "share with the task's own memory", func(v float64) task { return left(.1*whole, v*whole) }, .89, .91, sign, cause},
		{code, "tasks with the GPU", func(v float64) task { return shared(left(.1*whole, .95*whole), 3-v) }, 1, 2, sign, cause},
		{taken, "seconds before the end with full memory", func(v float64) task { return beside(63, v) }, 49, 50, sign, cause},
		{taken, "GiB of full memory", func(v float64) task { return beside(v, 55) }, 62, 62.1, sign, cause},
		{taken, "tasks with the GPU", func(v float64) task { return shared(beside(63, 55), 3-v) }, 1, 2, sign, cause},
	})
}

// The memory of another program is named at each failure, and blamed only if the task missed it.
func TestMemoryOfOthersIsNamed(t *testing.T) {
	stopped := beside(63, 55)
	stopped.exit = 143
	short := beside(0, 0)
	short.seconds = 4
	nearlyFull := onMemory(taskrecord.MemoryBefore{Others: 63.6 * gibi}, 63.6*gibi, 0, 30)
	for name, c := range map[string]struct {
		task task
		kind verdict.Kind
	}{
		"a task that used no GPU":    {beside(0, 0), verdict.Task},
		"a task that was stopped":    {stopped, verdict.Task},
		"a task with some memory":    {beside(57, 20), verdict.Unknown},
		"a task that was short":      {short, verdict.Unknown},
		"no memory for a task":       {nearlyFull, verdict.Unknown},
		"a task that filled the GPU": {beside(63, 55), verdict.Machine},
	} {
		v := verdict.Decide(c.task.record())
		require.Equal(t, c.kind, v.Kind, name)
		found := false
		for _, r := range v.Reasons {
			found = found || r.Code == "gpu-memory-taken" && r.GPU == gpu0 && r.Numbers["bytes"] == whole
			require.NotEqual(t, verdict.GPU, r.Kind, name)
		}
		require.True(t, found, name)
	}
	v := verdict.Decide(beside(63, 55).record())
	require.Equal(t, "GPU "+gpu0+": 56 of 64 GiB are used by x, pid 7, of this machine, and at most 63.0 GiB in all", v.Reasons[0].Text)
	v = verdict.Decide(onMemory(taskrecord.MemoryBefore{}, 58*gibi, 0, 0).record())
	require.Len(t, v.Reasons, 1, "memory in use is no sign without its owner")
}
