package verdict

import (
	"fmt"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

// idleLeast is the time without work, in seconds and as a share of the task's time, after
// which a stopped task hung.
const (
	idleLeast = 5.
	idleShare = .3
)

var exitRules = []Rule{
	{Code: "not-started", Kind: Task, find: notStarted,
		When:   "no process of the task ran a minute after its container, and it has no exit status",
		Source: "execve(2)",
		Fix:    "Look at the end of the build's output: usually its image lacks the command."},
	{Code: "crash", Kind: Task, find: crash,
		When:   "exit status 132, 134, 135, 136 or 139",
		Source: "signal(7)",
		Fix:    "Look at the output of the task: its program crashed."},
	{Code: "stopped-idle", Kind: Task, find: stopped(true),
		When:   "stopped, without work for 5 s and 30 % of its time before",
		Source: "exit status",
		Fix:    "The task hung by itself: look at its last output. An abort is shown at the build."},
	{Code: "stopped-busy", Kind: Task, find: stopped(false),
		When:   "stopped, at work to the end",
		Source: "exit status",
		Fix:    "Raise the timeout of the step, or divide it. An abort is shown at the build."},
	{Code: "exit-status", Kind: Task, find: exitStatus,
		When:   "any other exit status, without a sign above",
		Source: "exit status",
		Fix:    "Look at the output of the task."},
	{Code: "no-record", Kind: Unknown, find: noRecord,
		When:   "no exit status and no sign, or the recorder did not run at the end",
		Source: "record",
		Fix:    "Look at the build's page, and at the log of the worker's service."},
}

var crashes = map[int]string{132: "SIGILL", 134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE", 139: "SIGSEGV"}

func crash(f *facts) []finding {
	name, ok := crashes[f.exit()]
	_, logged := f.event(0, taskrecord.Crash)
	text := fmt.Sprintf("the task's program crashed: %s, exit status %d", name, f.exit())
	if logged {
		text += ", and the kernel logged it"
	}
	return one(ok, finding{text: text, numbers: map[string]float64{"exit": float64(f.exit())}})
}

func stopped(idle bool) func(*facts) []finding {
	return func(f *facts) []finding {
		seconds := f.idle()
		is := seconds >= idleLeast && seconds >= idleShare*f.lasted
		killed, _ := f.oomKilled()
		if !f.stopped() || is != idle || killed {
			return nil
		}
		text := fmt.Sprintf("the task was stopped after %.0f s (abort or timeout), and it worked to the end", f.lasted)
		if idle {
			text = fmt.Sprintf("the task was stopped after %.0f s (abort or timeout), and did nothing for the last "+
				"%.0f s", f.lasted, seconds)
		}
		busy := 0.
		for _, samples := range f.GPUs {
			for _, s := range samples {
				v, _ := s.Get(taskrecord.Busy)
				busy = max(busy, float64(v)/1000)
			}
		}
		return []finding{{text: text, numbers: map[string]float64{"seconds": f.lasted, "idle_seconds": seconds,
			"gpu_busy_most": busy}}}
	}
}

func exitStatus(f *facts) []finding {
	e := f.exit()
	_, crashed := crashes[e]
	return one(e > 0 && !crashed && !f.stopped(), finding{
		text:    fmt.Sprintf("the task itself failed with exit status %d", e),
		numbers: map[string]float64{"exit": float64(e)}})
}

func notStarted(f *facts) []finding {
	return one(f.neverStarted(), finding{text: "the command of the task did not start"})
}

func noRecord(f *facts) []finding {
	return one(f.exit() < 0 && !f.stopped() && !f.neverStarted(), finding{text: "how the task ended was not seen"})
}
