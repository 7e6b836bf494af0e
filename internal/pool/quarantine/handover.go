package quarantine

import (
	"slices"
	"time"

	"concourse-ci-machine/internal/gpu/health"
)

// From one task to the next: what the last one had of the GPU's memory has to be back.

// leaked is the fault of a GPU with memory in use that no task has: Value bytes more than
// when nobody had it before, of at most Limit.
const leaked health.Kind = "leaked_memory"

// leakTime is how long the driver may take to clear up after a task.
const leakTime = time.Minute

// slack is by how many bytes a GPU at rest may differ from itself: a hundredth of its
// memory, as the driver's own share of it grows with the card, and what a screen takes.
func slack(total float64) float64 { return max(total/100, 64<<20) }

// memory follows what of a GPU's memory is in use while nobody has the GPU. Only what
// comes with a task and stays after it is held against the GPU: on a machine that gives
// it to others as well, these use it when they like.
func (g *GPU) memory(s Seen, l Look) {
	if s.Memory == nil || s.Total == nil || l.TasksUnknown {
		return
	}
	had := g.Busy || g.Dirty != nil || l.Holders[s.Name] != g.Holder && g.Holder != ""
	g.Busy = l.proofOf(s.Name).Running || slices.ContainsFunc(l.Tasks, func(t Task) bool { return slices.Contains(t.GPUs, s.Name) })
	g.Holder, g.Slack = l.Holders[s.Name], slack(*s.Total)
	switch {
	case g.Busy:
		g.Dirty = nil
	case had && g.Idle != nil && *s.Memory > *g.Idle+g.Slack:
		if g.Dirty == nil {
			g.Dirty = &l.At
		}
	default:
		g.Dirty = nil
		// A level that moves a little is left as it is, so that its file is not written anew.
		if g.Idle == nil || *s.Memory > *g.Idle+g.Slack/4 || *s.Memory < *g.Idle-g.Slack/4 {
			g.Idle = s.Memory
		}
	}
}

// leak is the fault of memory that did not come back in time.
func (g *GPU) leak(s Seen, l Look) (health.Fault, bool) {
	if g.Dirty == nil || s.Memory == nil || l.At.Sub(*g.Dirty) < leakTime {
		return health.Fault{}, false
	}
	return health.Fault{Kind: leaked, Value: *s.Memory - *g.Idle, Limit: g.Slack}, true
}

// Most is how many bytes may be in use when the GPU is given on; false where that is not
// known.
func (g *GPU) Most() (uint64, bool) {
	if g.Idle == nil {
		return 0, false
	}
	return uint64(*g.Idle + g.Slack), true
}

// openElsewhere returns a container that has the GPU open and does not lease it, "" for none.
// A task can pass an open node through a socket, and the receiver keeps it when the lease
// has ended. Containers of other engines may be there to watch GPUs: Open has none of them.
func (s Seen) openElsewhere(l Look) string {
	holder, leased := l.Holders[s.Name]
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
