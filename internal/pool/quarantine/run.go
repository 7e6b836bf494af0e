package quarantine

import (
	"slices"
	"time"

	"concourse-ci-machine/internal/gpu/health"
)

// Task is a container that has GPUs at a look.
type Task struct {
	Container string    // Concourse's handle
	Like      string    // the same for tasks that look the same; "" where that is not known
	GPUs      []string  // names
	Since     time.Time // of its lease; zero where it has none
}

// Exit is how a task ended.
type Exit struct {
	Status *int // of its process; nil where nobody kept it
}

// Run is one task's use of GPUs, from the look that saw it first.
type Run struct {
	Container string     `json:"container"`
	Like      string     `json:"like,omitempty"`
	Began     time.Time  `json:"began"`
	Ended     *time.Time `json:"ended,omitempty"` // when a look saw it no more
	Exit      *int       `json:"exit,omitempty"`  // nil: it runs, or nobody kept it
	GPUs      []Use      `json:"gpus"`
	// Verdict is whose the faults are, for a run that met some.
	Verdict Verdict `json:"verdict,omitempty"`
	Why     string  `json:"why,omitempty"`
	// Cleared says that a task like it ran to its end since, and met nothing.
	Cleared bool `json:"cleared,omitempty"`
}

// Use is one GPU of a run.
type Use struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
	// Before is what was wrong with it when the run began, and Met what came after.
	Before []health.Fault `json:"before,omitempty"`
	Met    []health.Fault `json:"met,omitempty"`
	// MemoryBefore and MemoryAfter are bytes of its memory in use when nobody had it, and
	// when the run was judged.
	MemoryBefore *float64 `json:"memory_before_bytes,omitempty"`
	MemoryAfter  *float64 `json:"memory_after_bytes,omitempty"`
	// Shared says that others had the GPU, too, when one of these came.
	Shared bool `json:"shared,omitempty"`
}

const (
	// lingerTime is how long after its end a run is answerable for new faults: what the
	// hardware counted is seen up to one reading and one look later.
	lingerTime = 30 * time.Second
	// maxMet bounds the runs that are kept for what they met.
	maxMet = 32
	// maxRuns bounds those that are followed at a time: 64 partitions have one each, and
	// more where tasks share them.
	maxRuns = 256
)

// met are the kinds of faults that a task can be asked about: what makes a result wrong
// or ends a build. How hot it was is not.
func isMet(f health.Fault) bool { return isGate(f) || f.Kind == health.Reset }

// follow goes on with the runs: those of tasks that have GPUs now, and those that ended.
// It is called after the GPUs of the look were judged.
func (r *Record) follow(l Look) {
	if l.TasksUnknown || l.Unknown != "" {
		return
	}
	r.Runs, r.Met = slices.Clone(r.Runs), slices.Clone(r.Met)
	for i := range r.Runs {
		run := &r.Runs[i]
		run.GPUs = slices.Clone(run.GPUs)
		here := slices.ContainsFunc(l.Tasks, func(t Task) bool { return t.Container == run.Container })
		switch {
		case here:
			run.Ended = nil
		case run.Ended == nil:
			run.Ended, run.Exit = &l.At, l.Exits[run.Container].Status
		}
	}
	for _, t := range l.Tasks {
		r.begin(t, l)
	}
	for i := range r.Runs {
		for k := range r.Runs[i].GPUs {
			r.meet(i, &r.Runs[i].GPUs[k], l)
		}
	}
	done := func(run Run) bool { return run.Ended != nil && l.At.Sub(*run.Ended).Abs() >= lingerTime }
	for _, run := range r.Runs {
		if done(run) {
			r.finish(run, l)
		}
	}
	r.Runs = slices.DeleteFunc(r.Runs, done)
}

// begin notes a task, or more GPUs of one that is known.
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
		r.Runs = append(r.Runs, Run{Container: t.Container, Like: t.Like, Began: began})
		i = len(r.Runs) - 1
	}
	run := &r.Runs[i]
	for _, name := range t.GPUs {
		g := r.Find(name)
		if g == nil || slices.ContainsFunc(run.GPUs, func(u Use) bool { return u.Name == name }) {
			continue
		}
		// What came since the last look is this task's to answer for.
		run.GPUs = append(run.GPUs, Use{Name: name, Index: g.Index, Before: g.Told, MemoryBefore: g.Idle})
	}
}

// meet notes the faults of a GPU that are new to a run.
func (r *Record) meet(run int, u *Use, l Look) {
	g := r.Find(u.Name)
	if g == nil || r.passedOn(run, u.Name) {
		return
	}
	for _, f := range g.wrong(l) {
		known := func(k health.Fault) bool { return covers(k, f) }
		if slices.ContainsFunc(u.Before, known) || slices.ContainsFunc(u.Met, known) || len(u.Met) == maxMet {
			continue
		}
		hung := func(k health.Fault) bool { return k.Kind == health.Hang }
		if f.Kind == health.Reset && (slices.ContainsFunc(u.Met, hung) || slices.ContainsFunc(u.Before, hung)) {
			continue // a hang is counted among the resets as well
		}
		u.Met = append(slices.Clone(u.Met), f)
		for i, other := range r.Runs {
			shares := func(o Use) bool { return o.Name == u.Name }
			u.Shared = u.Shared || i != run && slices.ContainsFunc(other.GPUs, shares)
		}
	}
}

// passedOn reports whether a run is over, did not end badly, and another has its GPU
// since: what comes now is that one's.
func (r *Record) passedOn(run int, gpu string) bool {
	ended := &r.Runs[run]
	if ended.Ended == nil || ended.Exit != nil && badly(*ended.Exit) {
		return false
	}
	return slices.ContainsFunc(r.Runs, func(o Run) bool {
		return (o.Ended == nil || o.Ended.After(*ended.Ended)) && slices.ContainsFunc(o.GPUs, func(u Use) bool { return u.Name == gpu })
	})
}

// wrong is all that a task on this GPU can meet, as the look sees it.
func (g *GPU) wrong(l Look) (faults []health.Fault) {
	faults = slices.DeleteFunc(slices.Clone(g.Standing), func(f health.Fault) bool { return !isMet(f) })
	for _, s := range l.GPUs {
		if s.Name != g.Name {
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

// faulty are the GPUs on which a run met something.
func (run *Run) faulty() (list []Use) {
	for _, u := range run.GPUs {
		if len(u.Met) > 0 {
			list = append(list, u)
		}
	}
	return list
}
