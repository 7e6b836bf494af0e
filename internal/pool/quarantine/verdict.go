package quarantine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"concourse-ci-machine/internal/gpu/health"
)

// Verdict is whose the faults are that a run met.
type Verdict string

// The verdicts.
const (
	Infrastructure Verdict = "infrastructure" // the GPU's, its driver's or the machine's: run the build again
	OfTask         Verdict = "task"           // the task's own: it met faults on one GPU after the other
)

// blamed is the fault of a GPU on which several tasks in a row met faults.
const blamed health.Kind = "several_tasks"

// memoryTime is how long a run that met faults counts against its task or its GPU.
const memoryTime = 24 * time.Hour

// hardware are the kinds that no task brings about.
var hardware = []health.Kind{health.UncorrectableErrors, health.BadPages, gone, notInKFD, leaked}

// finish judges a run that is over, and keeps it where it met something.
func (r *Record) finish(run Run, l Look) {
	faulty := run.faulty()
	r.count(run)
	if len(faulty) == 0 {
		for i := range r.Met {
			if m := &r.Met[i]; alike(*m, run) {
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
		if g := r.Find(u.Name); g != nil && !u.Shared && !slices.Contains(g.Blamed, run.name()) {
			g.Blamed = append(slices.Clone(g.Blamed), run.name())
		}
	}
	for i := range run.GPUs {
		for _, s := range l.GPUs {
			if s.Name == run.GPUs[i].Name {
				run.GPUs[i].MemoryAfter = s.Memory
			}
		}
	}
	run.Verdict, run.Why = r.verdict(run, faulty, l.At)
	if run.Verdict == OfTask {
		r.pardon(run)
	}
	for _, u := range faulty {
		g := r.Find(u.Name)
		if g == nil || run.Verdict == OfTask || len(g.Blamed) < 2 {
			continue
		}
		if n := len(g.Blamed); g.State == InService && l.Policy == Auto {
			g.strike(health.Fault{Kind: blamed, Value: float64(n)}, l.At)
		}
		g.Blamed = nil
	}
	if r.Verdicts = maps.Clone(r.Verdicts); r.Verdicts == nil {
		r.Verdicts = map[Verdict]int{}
	}
	r.Verdicts[run.Verdict]++
	r.Met = append(r.Met, run)
	r.Met = r.Met[max(0, len(r.Met)-maxMet):]
}

// name is what a run has in common with others of its task.
func (run *Run) name() string {
	if run.Like != "" {
		return run.Like
	}
	return run.Container
}

func alike(a, b Run) bool { return a.name() == b.name() }

// verdict is whose the faults are, and why.
func (r *Record) verdict(run Run, faulty []Use, at time.Time) (Verdict, string) {
	shared, together := false, false
	for _, u := range faulty {
		shared = shared || u.Shared
		if g := r.Find(u.Name); g != nil {
			together = together || g.Together
		}
		for _, f := range u.Met {
			if slices.Contains(hardware, f.Kind) {
				return Infrastructure, "no task brings this about: " + inWords(f)
			}
		}
	}
	switch {
	case together:
		return Infrastructure, AllAtOnce
	case shared:
		return Infrastructure, "several tasks had the GPU, so it is not known which of them met it"
	case len(faulty) > 1:
		return OfTask, fmt.Sprintf("it met faults on %d GPUs at once, and others had none", len(faulty))
	}
	if last := r.lastOf(run, at); last != nil {
		return OfTask, fmt.Sprintf("a task like it met a fault on GPU %d at %s as well, and none ran to its end since", last.faulty()[0].Index, last.Began.UTC().Format(stamp))
	}
	if g := r.Find(faulty[0].Name); g != nil && len(g.Blamed) > 1 {
		return Infrastructure, fmt.Sprintf("%d different tasks in a row met faults on this GPU", len(g.Blamed))
	}
	return Infrastructure, "this task has met no fault on another GPU"
}

// lastOf is the last run of such a task that met a fault on another GPU, where none was
// well since.
func (r *Record) lastOf(run Run, at time.Time) *Run {
	for i := len(r.Met) - 1; i >= 0; i-- {
		m := &r.Met[i]
		if !alike(*m, run) {
			continue
		}
		if m.Cleared || at.Sub(m.Began).Abs() > memoryTime || m.faulty()[0].Name == run.faulty()[0].Name {
			return nil
		}
		return m
	}
	return nil
}

// pardon takes the strikes back that a task cost its GPUs. They have to prove that they
// are well all the same.
func (r *Record) pardon(run Run) {
	for _, u := range run.faulty() {
		g := r.Find(u.Name)
		if g == nil {
			continue
		}
		g.Blamed = nil
		g.Strikes = slices.DeleteFunc(slices.Clone(g.Strikes), func(s time.Time) bool { return !s.Before(run.Began) })
		g.Person = g.Person && len(g.Strikes) > maxStrikes
	}
}

// Avoided are GPUs that a task which looks like this one is given only where no other is
// free: it met a fault there, and the GPU may be why.
type Avoided struct{ GPU, Like string }

// avoidTime is how long a task that is run again is kept from the GPU.
const avoidTime = time.Hour

// Avoid are those of the last runs.
func (r *Record) Avoid() (list []Avoided) {
	for _, m := range r.Met {
		if m.Like == "" || m.Cleared || m.Ended == nil || r.At.Sub(*m.Ended).Abs() > avoidTime {
			continue
		}
		for _, u := range m.faulty() {
			if a := (Avoided{u.Name, m.Like}); !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}
	return list
}
