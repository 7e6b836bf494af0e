package quarantine

import (
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// Between two tasks the GPU's memory must become free.

// leaked is the fault of a GPU with used memory that belongs to no task. Value is the
// number of bytes above its earlier idle level, and Limit the allowed number.
const leaked health.Kind = "leaked_memory"

// leakTime is how long the driver may take to free the memory of a task.
const leakTime = time.Minute

// slack returns how many bytes an idle GPU may vary: a hundredth of its memory, because the
// driver's own share grows with the card, and the memory of a screen.
func slack(total float64) float64 { return max(total/100, 64<<20) }

// updateMemory tracks the GPU's memory that is in use while no task has the GPU. Only
// memory that appears with a task and stays after it is a fault. On a machine that shares
// the GPU with others, these may use memory at any time.
func (g *GPU) updateMemory(s Reading, l Look) {
	if s.Memory == nil || s.Total == nil || l.TasksUnknown {
		return
	}
	had := g.Busy || g.DirtySince != nil || l.Holders[s.Address()] != g.Holder && g.Holder != ""
	g.Busy = l.healthCheckOf(s.Address()).Running ||
		slices.ContainsFunc(l.Tasks, func(t Task) bool { return slices.Contains(t.GPUs, s.Address()) })
	g.Holder, g.Slack = l.Holders[s.Address()], slack(*s.Total)
	switch {
	case g.Busy:
		g.DirtySince = nil
	case had && g.Idle != nil && *s.Memory > *g.Idle+g.Slack:
		if g.DirtySince == nil {
			g.DirtySince = &l.At
		}
	default:
		g.DirtySince = nil
		// A level that varies little is kept, so that its file is not written again.
		if g.Idle == nil || *s.Memory > *g.Idle+g.Slack/4 || *s.Memory < *g.Idle-g.Slack/4 {
			g.Idle = s.Memory
		}
	}
}

// leak returns the fault of memory that was not freed in time.
func (g *GPU) leak(s Reading, l Look) (health.Fault, bool) {
	if g.DirtySince == nil || s.Memory == nil || l.At.Sub(*g.DirtySince) < leakTime {
		return health.Fault{}, false
	}
	return health.Fault{Kind: leaked, Value: *s.Memory - *g.Idle, Limit: g.Slack}, true
}

// MaxIdleMemory returns how many bytes may be in use when the next task gets the GPU, and
// false if that is not known.
func (g *GPU) MaxIdleMemory() (uint64, bool) {
	if g.Idle == nil {
		return 0, false
	}
	return uint64(*g.Idle + g.Slack), true
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
