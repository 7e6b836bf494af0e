package verdict_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

// waiting returns a stopped task that did nothing for its last seconds. change changes the
// readings of that time.
func waiting(lasted, idle float64, change func(waited float64, machine, gpu values)) task {
	unused := make(values, taskrecord.NumCounters)
	return task{seconds: lasted, exit: 143,
		machine: func(second float64, v values) {
			if waited := second - (lasted - idle); waited > 0 {
				v.set(taskrecord.CPUUsage, (lasted-idle)*1e6)
				if change != nil {
					change(waited, v, unused)
				}
			}
		},
		gpu: func(second float64, v values) {
			if waited := second - (lasted - idle); waited > 0 {
				v.set(taskrecord.Busy, 0)
				if change != nil {
					change(waited, make(values, taskrecord.NumCounters), v)
				}
			}
		}}
}

// idleWith returns a task that waited for 60 of 100 seconds, with work in that time.
func idleWith(work func(v, waited float64, machine, gpu values)) func(v float64) task {
	return func(v float64) task {
		return waiting(100, 60, func(waited float64, machine, gpu values) { work(v, waited, machine, gpu) })
	}
}

func TestTimeWithoutWorkDecidesBetweenIdleAndBusy(t *testing.T) {
	sum := func(counter int) func(v float64) task {
		return idleWith(func(v, waited float64, machine, _ values) { machine.set(counter, v*waited) })
	}
	checkLimits(t, []limit{
		{"stopped-idle", "seconds", func(v float64) task { return waiting(10, v, nil) }, 4, 5, none, sign},
		{"stopped-busy", "seconds", func(v float64) task { return waiting(10, v, nil) }, 4, 5, sign, none},
		{"stopped-idle", "share of the time", func(v float64) task { return waiting(100, v, nil) }, 29, 30, none, sign},
		{"stopped-busy", "CPU in µs/s", idleWith(func(v, waited float64, machine, _ values) {
			machine.set(taskrecord.CPUUsage, 40e6+v*waited)
		}), 20_000, 30_000, none, sign},
		{"stopped-busy", "CPU in µs of the end", idleWith(func(v, waited float64, machine, _ values) {
			if waited == 60 {
				machine.set(taskrecord.CPUUsage, 40e6+v)
			}
		}), 500_000, 600_000, none, sign},
		{"stopped-busy", "work of the GPU in thousandths", idleWith(func(v, _ float64, _, gpu values) {
			gpu.set(taskrecord.Busy, v)
		}), 50, 51, none, sign},
		{"stopped-busy", "bytes read", sum(taskrecord.DiskRead), 4096, 4097, none, sign},
		{"stopped-busy", "bytes written", sum(taskrecord.DiskWritten), 4096, 4097, none, sign},
		{"stopped-busy", "bytes received", sum(taskrecord.NetReceived), 4096, 4097, none, sign},
		{"stopped-busy", "bytes sent", sum(taskrecord.NetSent), 4096, 4097, none, sign},
	})
}

// A full record has no more readings of GPUs.
func TestTimeWithoutReadingsOfTheGPUIsNotIdle(t *testing.T) {
	r := waiting(100, 60, nil).record()
	r.GPUs[gpu0] = r.GPUs[gpu0][:40]
	require.Equal(t, "stopped-busy", verdict.Decide(r).Reasons[0].Code)
}

func TestExitStatusesHaveTheirReasons(t *testing.T) {
	for status, code := range map[int]string{
		1: "exit-status", 2: "exit-status", 125: "exit-status", 126: "exit-status", 133: "exit-status", 255: "exit-status",
		132: "crash", 134: "crash", 135: "crash", 136: "crash", 139: "crash",
		124: "stopped-busy", 137: "killed", 143: "stopped-busy",
	} {
		v := verdict.Decide(task{exit: status}.record())
		require.Len(t, v.Reasons, 1, status)
		require.Equal(t, code, v.Reasons[0].Code, status)
		require.Equal(t, verdict.Task, v.Kind, status)
	}
}

func TestCrashIsNotedIfTheKernelLoggedIt(t *testing.T) {
	for logged, text := range map[bool]string{false: "SIGSEGV, exit status 139", true: "SIGSEGV, exit status 139, and the kernel logged it"} {
		c := task{exit: 139}
		if logged {
			c.events = []taskrecord.Event{event(60, taskrecord.Crash)}
		}
		require.Equal(t, fmt.Sprint("the task's program crashed: ", text), verdict.Decide(c.record()).Reasons[0].Text)
	}
}
