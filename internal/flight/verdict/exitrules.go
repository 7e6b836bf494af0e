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
		When:   "no process ran a minute after its container, and no exit status",
		Source: "execve(2)",
		Fix:    "Look at the end of the build's output: usually its image lacks the command."},
	{Code: "crash", Kind: Task, find: crash,
		When:   "exit status 132, 134, 135, 136 or 139",
		Source: "signal(7)",
		Fix:    "Look at its output: its program crashed."},
	{Code: "stopped-idle", Kind: Task, find: stopped(true),
		When:   "stopped, without work for 5 s and 30 % of its time",
		Source: "exit status",
		Fix:    "The task hung by itself: look at its last output. An abort is shown at the build.",
		FixRun: "It hung by itself: look at its last output. An abort or timeout is shown by who started it."},
	{Code: "killed", Kind: Task, find: killed,
		When:   "exit status 137, at work to the end",
		Source: "signal(7)",
		Fix:    "Look in its script for a kill -9. If the build's page shows a timeout, the task ignored SIGTERM for 10 s.",
		FixRun: "Look in its script for a kill -9. If it was stopped by who started it, it ignored SIGTERM."},
	slowerRule,
	{Code: "stopped-busy", Kind: Task, find: stopped(false),
		When:   "143, 124 or removed, at work to the end",
		Source: "exit status",
		Fix:    "Raise the timeout of the step, or divide it. An abort is shown at the build.",
		FixRun: "Raise the timeout, or divide the work. An abort is shown by who started it."},
	{Code: "exit-status", Kind: Task, find: exitStatus,
		When:   "any other exit status, without a sign above",
		Source: "exit status",
		Fix:    "Look at its output."},
	{Code: noRecordCode, Kind: Unknown, find: noRecord,
		When:   "no exit status and no sign",
		Source: "record",
		Fix:    "Look at the build's page, and at the log of the worker's service.",
		FixRun: "Look at its output and at the log of the machine: the recorder did not run to its end."},
}

// noRecordCode is the rule of a task without an exit status and a sign.
const noRecordCode = "no-record"

var crashes = map[int]string{132: "SIGILL", 134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE", 139: "SIGSEGV"}

func crash(f *facts) []finding {
	name, ok := crashes[f.exit()]
	_, logged := f.event(0, taskrecord.Crash)
	text := fmt.Sprintf("%s's program crashed: %s, exit status %d", f.name(), name, f.exit())
	if logged {
		text += ", and the kernel logged it"
	}
	return one(ok, finding{text: text, numbers: map[string]float64{"exit": float64(f.exit())}})
}

// hung reports whether the task did nothing before it was stopped, and for how many seconds.
func (f *facts) hung() (bool, float64) {
	seconds := f.idle()
	return seconds >= idleLeast && seconds >= idleShare*f.lasted, seconds
}

// killed is apart from stopped: a process that kills itself leaves the same status.
func killed(f *facts) []finding {
	hung, _ := f.hung()
	oom, _ := f.oomKilled()
	return one(f.exit() == byKill && !hung && !oom && len(f.spins) == 0, finding{
		numbers: map[string]float64{"seconds": f.lasted},
		text: fmt.Sprintf("SIGKILL ended %s after %.0f s, while it worked: its own, or after a timeout", f.name(),
			f.lasted)})
}

// stoppedBusy reports whether the task worked until it was stopped.
func (f *facts) stoppedBusy() bool {
	hung, _ := f.hung()
	oom, _ := f.oomKilled()
	return f.stopped() && !hung && !oom && f.exit() != byKill && len(f.spins) == 0
}

func stopped(idle bool) func(*facts) []finding {
	return func(f *facts) []finding {
		hung, seconds := f.hung()
		oom, _ := f.oomKilled()
		p, known := f.pace()
		if idle && (!f.stopped() || !hung || oom) || !idle && (!f.stoppedBusy() || known && p.longer) {
			return nil
		}
		text := fmt.Sprintf("%s was stopped after %.0f s (abort or timeout), and it worked to the end", f.name(),
			f.lasted)
		if idle {
			text = fmt.Sprintf("%s was stopped after %.0f s (abort or timeout), and did nothing for the last "+
				"%.0f s", f.name(), f.lasted, seconds)
		}
		if known {
			text += p.text()
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
		text:    fmt.Sprintf("%s itself failed with exit status %d", f.name(), e),
		numbers: map[string]float64{"exit": float64(e)}})
}

func notStarted(f *facts) []finding {
	return one(f.neverStarted(), finding{text: "the command of " + f.name() + " did not start"})
}

func noRecord(f *facts) []finding {
	return one(f.exit() < 0 && !f.stopped() && !f.neverStarted(),
		finding{text: "how " + f.name() + " ended was not seen"})
}
