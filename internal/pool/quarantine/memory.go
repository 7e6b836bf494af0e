package quarantine

import (
	"cmp"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
)

// Between two tasks the GPU's memory must become free of theirs. The memory that processes
// outside of tasks have is theirs at any time.

// leaked is the fault of a GPU with used memory that belongs to an ended task. Value is the
// number of bytes above its earlier idle level, and Limit the allowed number.
const leaked health.Kind = "leaked_memory"

// leakTime is how long the driver may take to free the memory of a task. It is longer than
// the time between two scans of the processes, which show a process that has just begun.
const leakTime = time.Minute

// slack returns how many bytes an idle GPU may vary: a hundredth of its memory, because the
// driver's own share grows with the card, and the memory of a screen. The driver also has
// tables for the memory of processes, a fiftieth at most.
func slack(total, owned float64) float64 { return max(total/100, 64<<20) + owned/50 }

// Memory holds a GPU's memory in use and its owners, in bytes.
type Memory struct {
	At    time.Time `json:"at,omitzero"` // of the last look at which no task had the GPU
	Used  float64   `json:"used"`        // then
	Total float64   `json:"total"`
	// Processes have memory now and belong to no task, the largest first.
	Processes []usage.Process `json:"processes,omitempty"`
	// Ended has been left by an ended task. Unowned is the rest that no process has: the
	// driver's share, or of processes that this machine cannot see.
	Ended      float64 `json:"ended,omitempty"`
	Unowned    float64 `json:"unowned,omitempty"`
	Integrated bool    `json:"integrated,omitempty"` // an APU, see usage.Process
	Partition  bool    `json:"partition,omitempty"`  // see Reading.Partition
}

// updateMemory tracks the owners of the GPU's memory. Only memory without a process that
// appears with a task and stays after it is a fault.
func (g *GPU) updateMemory(s Reading, l Look) {
	if s.Memory == nil || s.Total == nil || l.TasksUnknown {
		return
	}
	changed := l.Holders[s.Address()] != g.Holder && g.Holder != ""
	had := g.BusyAt != nil || g.DirtySince != nil || changed
	checked := l.healthCheckOf(s.Address()).Running
	leased := slices.Contains(l.EngineLeases, s.Address())
	busy := checked || leased ||
		slices.ContainsFunc(l.Tasks, func(t Task) bool { return slices.Contains(t.GPUs, s.Address()) })
	processes, owned := ownersOf(s.Processes, *s.Memory)
	unowned := max(0, *s.Memory-owned)
	m := Memory{}
	if g.Memory != nil {
		m = *g.Memory
	}
	m.Total, m.Integrated, m.Partition = *s.Total, s.Integrated, s.Partition
	if !checked {
		m.Processes = slices.DeleteFunc(processes, func(p usage.Process) bool {
			return wellknown.IsHandle(p.Container) || leased && p.Container != ""
		})
	}
	g.Holder, g.Slack, g.Memory = l.Holders[s.Address()], slack(*s.Total, owned), &m
	if busy || changed && g.BusyAt == nil && !s.UsersAt.IsZero() {
		g.BusyAt, g.DirtySince = &l.At, nil
	}
	if busy || g.BusyAt != nil && !s.UsersAt.IsZero() && s.UsersAt.Before(*g.BusyAt) {
		return // the last scan may still have the processes of a task
	}
	g.BusyAt = nil
	m.At, m.Used, m.Ended, m.Unowned = l.At, *s.Memory, 0, unowned
	if s.UsersAt.IsZero() {
		m.Unowned = 0 // processes are not scanned
	}
	if had && g.Idle != nil && unowned > *g.Idle+g.Slack {
		m.Ended, m.Unowned = unowned-*g.Idle, min(m.Unowned, *g.Idle)
		if g.DirtySince == nil {
			g.DirtySince = &l.At
		}
		return
	}
	g.DirtySince = nil
	// A level that varies little is kept, so that its file is not written again.
	if g.Idle == nil || unowned > *g.Idle+g.Slack/4 || unowned < *g.Idle-g.Slack/4 {
		g.Idle = &unowned
	}
}

// usedBefore returns the bytes in use when no task had the GPU, and nil if no look saw it then.
func (m *Memory) usedBefore() *float64 {
	if m == nil || m.At.IsZero() {
		return nil
	}
	return new(m.Used)
}

// ownersOf returns the processes and the sum of their memory. Processes of the host have at most
// what the others leave, see usage.Process.
func ownersOf(all []usage.Process, used float64) (processes []usage.Process, sum float64) {
	for _, p := range all {
		if !p.Host {
			processes, sum = append(processes, p), sum+p.Memory
		}
	}
	for _, p := range all {
		if p.Memory = min(p.Memory, used-sum); p.Host && p.Memory > 0 {
			processes, sum = append(processes, p), sum+p.Memory
		}
	}
	slices.SortStableFunc(processes, func(a, b usage.Process) int { return cmp.Compare(b.Memory, a.Memory) })
	return processes, sum
}

// leak returns the fault of memory that was not freed in time.
func (g *GPU) leak(s Reading, l Look) (health.Fault, bool) {
	if g.DirtySince == nil || g.Memory == nil || s.Memory == nil || l.At.Sub(*g.DirtySince) < leakTime {
		return health.Fault{}, false
	}
	return health.Fault{Kind: leaked, Value: g.Memory.Ended, Limit: g.Slack}, true
}

// MaxIdleMemory returns how many bytes may be in use when the next task gets the GPU, and
// false if that is not known.
func (g *GPU) MaxIdleMemory() (uint64, bool) {
	if g.Idle == nil || g.Memory == nil || g.Memory.Partition {
		return 0, false
	}
	most := *g.Idle + g.Slack
	for _, p := range g.Memory.Processes {
		most += p.Memory
	}
	return uint64(most), true
}

// openElsewhere returns a container that has the GPU open without a lease, and "" for none.
// A task can pass an open node through a socket, and the receiver keeps it after the lease
// has ended. Containers of other engines may monitor GPUs, so Open has none of them.
func (s Reading) openElsewhere(l Look) string {
	holder, leased := l.Holders[s.Address()]
	if !leased {
		return ""
	}
	for _, container := range s.Open {
		if container != holder {
			return container
		}
	}
	return ""
}
