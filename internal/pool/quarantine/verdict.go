package quarantine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// Verdict is the cause of a run's faults.
type Verdict string

// Values of Verdict.
const (
	Infrastructure Verdict = "infrastructure" // the GPU, its driver or the machine: run the build again
	TaskCaused     Verdict = "task"           // the task itself: it had faults on one GPU after the other
)

// blamed is the fault of a GPU on which several tasks in a row had faults.
const blamed health.Kind = "several_tasks"

// memoryTime is how long a run with faults is used as evidence against its task or its GPU.
const memoryTime = 24 * time.Hour

// hardware lists the kinds that no task can cause.
var hardware = []health.Kind{health.UncorrectableErrors, health.BadPages, missing, leaked}

// finish judges a run that is over, and keeps it if it had faults.
func (r *Record) finish(run Run, l Look) {
	faulty := run.faulty()
	r.countOutcome(run)
	if len(faulty) == 0 {
		for i := range r.FaultyRuns {
			if m := &r.FaultyRuns[i]; sameTask(*m, run) {
				m.Cleared = true
			}
		}
		for _, u := range run.GPUs {
			if g := r.Find(u.Name); g != nil {
				g.Blamed = nil
			}
		}
		return
	}
	for _, u := range faulty {
		if g := r.Find(u.Name); g != nil && !u.Shared && !slices.ContainsFunc(g.Blamed, run.isTask) {
			g.Blamed = append(slices.Clone(g.Blamed), run.taskName())
		}
	}
	for i := range run.GPUs {
		for _, s := range l.GPUs {
			if s.Address() == run.GPUs[i].Name {
				run.GPUs[i].MemoryAfter = s.Memory
			}
		}
	}
	run.Verdict, run.Reason = r.judge(run, faulty, l.At)
	if run.Verdict == TaskCaused {
		r.withdrawStrikes(run)
	}
	for _, u := range faulty {
		g := r.Find(u.Name)
		if g == nil || run.Verdict == TaskCaused || len(g.Blamed) < 2 {
			continue
		}
		if n := len(g.Blamed); g.State == InService && l.Policy == Auto {
			g.recordStrike(health.Fault{Kind: blamed, Value: float64(n)}, l.At)
		}
		g.Blamed = nil
	}
	if r.Verdicts = maps.Clone(r.Verdicts); r.Verdicts == nil {
		r.Verdicts = map[Verdict]int{}
	}
	r.Verdicts[run.Verdict]++
	r.FaultyRuns = append(r.FaultyRuns, run)
	r.FaultyRuns = r.FaultyRuns[max(0, len(r.FaultyRuns)-maxFaultyRuns):]
}

// taskName returns the digests that a run has in common with others of its task, or its
// container if both are unknown.
func (run *Run) taskName() string {
	if run.StepHash == "" && run.Program == "" {
		return run.Container
	}
	return run.StepHash + "/" + run.Program
}

// isTask reports whether a name of taskName is of the same task: the same step, or another
// step that runs the same program.
func (run *Run) isTask(name string) bool {
	step, program, _ := strings.Cut(name, "/")
	return name == run.taskName() || step != "" && step == run.StepHash || program != "" && program == run.Program
}

func sameTask(a, b Run) bool { return a.isTask(b.taskName()) }

// judge returns the cause of the faults, and why.
func (r *Record) judge(run Run, faulty []Use, at time.Time) (Verdict, string) {
	shared, together := false, false
	for _, u := range faulty {
		shared = shared || u.Shared
		if g := r.Find(u.Name); g != nil {
			together = together || g.CommonCause
		}
		for _, f := range u.NewFaults {
			if slices.Contains(hardware, f.Kind) {
				return Infrastructure, "a task cannot cause " + describe(f)
			}
		}
	}
	switch {
	case together:
		return Infrastructure, AllAtOnce
	case shared:
		return Infrastructure, "several tasks had the GPU, so the cause is unknown"
	case len(faulty) > 1:
		return TaskCaused, fmt.Sprintf("it had faults on %d GPUs at once, and others had none", len(faulty))
	}
	if last := r.previousFaultyRun(run, at); last != nil {
		return TaskCaused, fmt.Sprintf("a task like it had a fault on GPU %d at %s as well, and none ran to its "+
			"end since", last.faulty()[0].Index, last.Began.UTC().Format(stamp))
	}
	if g := r.Find(faulty[0].Name); g != nil && len(g.Blamed) > 1 {
		return Infrastructure, fmt.Sprintf("%d different tasks in a row had faults on this GPU", len(g.Blamed))
	}
	return Infrastructure, "this task had no fault on another GPU"
}

// previousFaultyRun returns the last run of the step, if it had a fault on another GPU and
// no later run was without faults.
func (r *Record) previousFaultyRun(run Run, at time.Time) *Run {
	for i := len(r.FaultyRuns) - 1; i >= 0; i-- {
		m := &r.FaultyRuns[i]
		if !sameTask(*m, run) {
			continue
		}
		if m.Cleared || at.Sub(m.Began).Abs() > memoryTime || m.faulty()[0].Name == run.faulty()[0].Name {
			return nil
		}
		return m
	}
	return nil
}

// withdrawStrikes removes the strikes that a task caused on its GPUs. The GPUs still go
// through their probation.
func (r *Record) withdrawStrikes(run Run) {
	for _, u := range run.faulty() {
		g := r.Find(u.Name)
		if g == nil {
			continue
		}
		g.Blamed = nil
		g.Strikes = slices.DeleteFunc(slices.Clone(g.Strikes), func(s time.Time) bool { return !s.Before(run.Began) })
		g.ManualReturn = g.ManualReturn && len(g.Strikes) > maxStrikes
	}
}

// avoidTime is how long reruns of a step avoid the GPU. maxAvoided bounds the list: a task can
// have any step's hash.
const (
	avoidTime  = time.Hour
	maxAvoided = 256
)

// Avoid returns, by GPU, the hashes of the steps that had a fault or hung there lately, and
// the GPU may be the cause. If it is not, the step hangs on the other GPU too.
func (r *Record) Avoid() map[string][]string {
	avoid, n := map[string][]string{}, 0
	add := func(gpu, stepHash string, ended time.Time) {
		if stepHash != "" && r.At.Sub(ended).Abs() <= avoidTime && n < maxAvoided &&
			!slices.Contains(avoid[gpu], stepHash) {
			avoid[gpu], n = append(avoid[gpu], stepHash), n+1
		}
	}
	for _, m := range r.FaultyRuns {
		if m.Cleared || m.Ended == nil {
			continue
		}
		for _, u := range m.faulty() {
			add(u.Name, m.StepHash, *m.Ended)
		}
	}
	r.avoidHung(add)
	return avoid
}
