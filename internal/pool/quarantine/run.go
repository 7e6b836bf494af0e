package quarantine

import (
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// Task describes a container that has GPUs at a look.
type Task struct {
	Container string    // Concourse's handle
	StepHash  string    // equal for reruns of a step; "" if not known
	Program   string    // equal for tasks that run the same; "" if not known
	GPUs      []string  // names
	Since     time.Time // of its lease; zero if it has none
}

// Exit describes the end of a task.
type Exit struct {
	Status *int   // of its process; nil if it was not recorded
	Team   string // digest of the task's team; "" if not known
}

// Run describes the GPU usage of one task, from the look that saw it first.
type Run struct {
	Container string     `json:"container"`
	StepHash  string     `json:"step_hash,omitempty"`
	Program   string     `json:"program,omitempty"` // see Task
	Team      string     `json:"team,omitempty"`    // see Exit
	Began     time.Time  `json:"began"`
	Ended     *time.Time `json:"ended,omitempty"` // when a look no longer saw it
	Exit      *int       `json:"exit,omitempty"`  // nil if it runs, or was not recorded
	GPUs      []Use      `json:"gpus"`
	// Verdict is the cause of the faults, for a run with faults.
	Verdict Verdict `json:"verdict,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	// Cleared reports that a later run of the same step ended without faults.
	Cleared bool `json:"cleared,omitempty"`
}

// Use describes one GPU of a run.
type Use struct {
	Ref
	// Before has the faults when the run began, and NewFaults later ones.
	Before    []health.Fault `json:"before,omitempty"`
	NewFaults []health.Fault `json:"new_faults,omitempty"`
	FaultAt   *time.Time     `json:"fault_at,omitempty"` // of the look that saw the first new fault
	// MemoryBefore and MemoryAfter are bytes of its memory in use when no task had it, and
	// when the run was judged.
	MemoryBefore *float64 `json:"memory_before,omitempty"`
	MemoryAfter  *float64 `json:"memory_after,omitempty"`
	// Shared reports that other tasks had the GPU when a new fault came.
	Shared bool `json:"shared,omitempty"`
}

const (
	// lingerTime is how long after its end a run is blamed for new faults: hardware
	// counters are seen up to one reading and one look later.
	lingerTime = 30 * time.Second
	// maxFaultyRuns bounds the runs that are kept for their faults.
	maxFaultyRuns = 32
	// maxRuns bounds the current runs: 64 partitions have one each, and more if tasks share
	// them.
	maxRuns = 256
)

// isTaskFault reports whether a task can be blamed for a fault, because it makes a result
// wrong or ends a build. Heat is not such a fault.
func isTaskFault(f health.Fault) bool { return endangers(f) || f.Kind == health.Reset }

// updateRuns updates the runs of tasks that have GPUs now, and of tasks that ended. It is
// called after the GPUs of the look were judged.
func (r *Record) updateRuns(l Look) {
	if l.TasksUnknown || l.Unknown != "" {
		return
	}
	r.Runs, r.FaultyRuns = slices.Clone(r.Runs), slices.Clone(r.FaultyRuns)
	for i := range r.Runs {
		run := &r.Runs[i]
		run.GPUs = slices.Clone(run.GPUs)
		here := slices.ContainsFunc(l.Tasks, func(t Task) bool { return t.Container == run.Container })
		switch {
		case here:
			run.Ended = nil
		case run.Ended == nil:
			exit := l.Exits[run.Container]
			run.Ended, run.Exit, run.Team = &l.At, exit.Status, exit.Team
		}
	}
	for _, t := range l.Tasks {
		r.begin(t, l)
	}
	for i := range r.Runs {
		for k := range r.Runs[i].GPUs {
			r.recordFaults(i, &r.Runs[i].GPUs[k], l)
		}
	}
	over := func(run Run) bool { return run.Ended != nil && l.At.Sub(*run.Ended).Abs() >= lingerTime }
	for _, run := range r.Runs {
		if over(run) {
			r.finish(run, l)
		}
	}
	r.Runs = slices.DeleteFunc(r.Runs, over)
}

// begin adds a task, or more GPUs of a known one.
func (r *Record) begin(t Task, l Look) {
	i := slices.IndexFunc(r.Runs, func(run Run) bool { return run.Container == t.Container })
	if i < 0 {
		if len(r.Runs) == maxRuns {
			return
		}
		began := l.At
		if !t.Since.IsZero() && t.Since.Before(began) {
			began = t.Since
		}
		r.Runs = append(r.Runs, Run{Container: t.Container, StepHash: t.StepHash, Began: began})
		i = len(r.Runs) - 1
	}
	run := &r.Runs[i]
	if t.Program != "" { // known once the task's own process has started
		run.Program = t.Program
	}
	for _, name := range t.GPUs {
		g := r.Find(name)
		if g == nil || slices.ContainsFunc(run.GPUs, func(u Use) bool { return u.Name == name }) {
			continue
		}
		// New faults since the last look are blamed on this task.
		run.GPUs = append(run.GPUs, Use{Ref: g.Ref, Before: g.KnownFaults, MemoryBefore: g.Memory.usedBefore()})
	}
}

// recordFaults records the faults of a GPU that are new to a run.
func (r *Record) recordFaults(run int, u *Use, l Look) {
	g := r.Find(u.Name)
	if g == nil || r.superseded(run, u.Name) {
		return
	}
	ended := r.Runs[run].Ended
	for _, f := range g.taskFaults(l) {
		if ended != nil && ended.Before(l.At) && f.Kind == missing {
			continue // a look after the end still saw the GPU: only counters come late
		}
		known := func(k health.Fault) bool { return covers(k, f) }
		if slices.ContainsFunc(u.Before, known) || slices.ContainsFunc(u.NewFaults, known) ||
			len(u.NewFaults) == maxFaultyRuns {
			continue
		}
		hung := func(k health.Fault) bool { return k.Kind == health.Hang }
		if f.Kind == health.Reset && (slices.ContainsFunc(u.NewFaults, hung) || slices.ContainsFunc(u.Before, hung)) {
			continue // a hang is counted among the resets as well
		}
		if len(u.NewFaults) == 0 {
			u.FaultAt = &l.At
		}
		u.NewFaults = append(slices.Clone(u.NewFaults), f)
		for i, other := range r.Runs {
			shares := func(o Use) bool { return o.Name == u.Name }
			u.Shared = u.Shared || i != run && slices.ContainsFunc(other.GPUs, shares)
		}
	}
}

// superseded reports whether a run ended without a failure and another one has its GPU
// since. New faults are then blamed on the other.
func (r *Record) superseded(run int, gpu string) bool {
	ended := &r.Runs[run]
	if ended.Ended == nil || ended.Exit != nil && isBadExit(*ended.Exit) {
		return false
	}
	return slices.ContainsFunc(r.Runs, func(o Run) bool {
		return (o.Ended == nil || o.Ended.After(*ended.Ended)) &&
			slices.ContainsFunc(o.GPUs, func(u Use) bool { return u.Name == gpu })
	})
}

// taskFaults returns all faults that a task on this GPU can be blamed for.
func (g *GPU) taskFaults(l Look) (faults []health.Fault) {
	faults = slices.DeleteFunc(slices.Clone(g.ActiveFaults), func(f health.Fault) bool { return !isTaskFault(f) })
	for _, s := range l.GPUs {
		if s.Address() != g.Name {
			continue
		}
		for _, f := range s.Faults {
			if f.Kind == health.Reset {
				faults = append(faults, f)
			}
		}
	}
	return faults
}

// FaultTime returns the time of a run's first new fault on a GPU.
func (run Run) FaultTime(u Use) time.Time {
	if u.FaultAt == nil {
		return run.Began
	}
	return *u.FaultAt
}

// faulty returns the GPUs on which a run had faults.
func (run *Run) faulty() (list []Use) {
	for _, u := range run.GPUs {
		if len(u.NewFaults) > 0 {
			list = append(list, u)
		}
	}
	return list
}
