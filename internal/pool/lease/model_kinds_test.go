package lease

import (
	"os"
	"slices"
	"strconv"

	"github.com/stretchr/testify/require"
)

// pod is one that has GPUs, as the kubelet sees it.
type pod struct {
	name string
	gpus []int
}

// endContainer ends the first process of another engine's, and all of it. The engine takes
// its pid file away: a file of an unseen start could name the first process of another
// container by then, and would count.
func (m *model) endContainer() {
	c := m.some(func(c *container) bool { return c.OwnProcess && c.init != 0 && !c.noFile && len(c.calls) == 0 })
	if c == nil {
		return
	}
	for _, pid := range c.tasks {
		m.reap(pid)
	}
	init := c.init
	c.tasks, c.init = nil, 0
	m.die(init)
	m.check()
	require.NoError(m.t, os.RemoveAll(c.Bundle))
	m.reap(init)
	m.note("container ended")
}

// stepPods is what the kubelet and the keeper do.
func (m *model) stepPods() {
	switch roll := m.r.IntN(5); {
	case roll == 0 && len(m.pods) > 0:
		m.pods = slices.Delete(m.pods, 0, 1)
		m.note("pod ended")
	case m.noKeeper: // what pods have stays theirs, whatever becomes of them
		if m.noKeeper = m.r.IntN(3) > 0; !m.noKeeper {
			m.reconcile()
		}
	case roll < 3:
		m.allocate()
	default:
		m.reconcile()
	}
}

// allocate gives GPUs that the kubelet thinks free; the pod is not always listed.
func (m *model) allocate() {
	var free []int
	for g := range m.owner {
		if !slices.ContainsFunc(m.pods, func(p pod) bool { return slices.Contains(p.gpus, g) }) {
			free = append(free, g)
		}
	}
	if len(free) == 0 {
		return
	}
	m.r.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	gpus := free[:1+m.r.IntN(min(2, len(free)))]
	if m.keep(StartingPod, gpus) && m.r.IntN(4) > 0 {
		m.made++
		m.pods = append(m.pods, pod{"n/p" + strconv.Itoa(m.made) + "/main", gpus})
	}
}

// reconcile makes the records match the kubelet's pods, and no others.
func (m *model) reconcile() {
	for _, p := range m.pods {
		if m.keep(p.name, p.gpus); m.noKeeper {
			return
		}
	}
	var back []int
	for g, name := range m.kept {
		if name != "" && !m.claimed(name) && !slices.ContainsFunc(m.pods, func(p pod) bool { return p.name == name }) {
			back = append(back, g)
		}
	}
	o := m.mayDie(func(l Leases) outcome { return outcome{err: l.ReleasePod(back)} })
	m.settle(o, back, "")
	if !o.killed {
		require.NoError(m.t, o.err)
		for g, name := range m.kept {
			require.True(m.t, name == "" || m.claimed(name) || slices.ContainsFunc(m.pods, func(p pod) bool { return p.name == name && slices.Contains(p.gpus, g) }), "step %d: GPU %d is lost with %s", m.n, g, name)
		}
		m.note("reconciled")
	}
}

// keep leases GPUs to a pod, and reports whether it has them all.
func (m *model) keep(name string, gpus []int) bool {
	held := m.check()
	may := true
	for _, g := range gpus {
		may = may && (!held[g] || m.kept[g] != "" && !m.claimed(m.kept[g]))
	}
	o := m.mayDie(func(l Leases) outcome { return outcome{err: l.HoldForPod(name, gpus, nil)} })
	m.settle(o, gpus, name)
	switch {
	case o.killed:
		return false
	case may:
		require.NoError(m.t, o.err, "step %d", m.n)
		m.note("pod kept")
	default:
		var r *Refusal
		require.ErrorAs(m.t, o.err, &r, "step %d", m.n)
		m.note("pod refused")
	}
	return may
}

// settle notes what a call of the keeper's has done: all or nothing, if it was not killed.
func (m *model) settle(o outcome, gpus []int, name string) {
	if o.killed {
		m.noKeeper = true
		m.note("keeper killed")
	}
	states, _, err := m.l.Read()
	require.NoError(m.t, err)
	for _, g := range gpus {
		now := ""
		if s := states[g]; s.Held && (s.Kind == Pod || s.Kind == Claimed) {
			now = s.Container
		}
		done := now == name && !m.damaged[g]
		require.True(m.t, now == m.kept[g] || done, "step %d: GPU %d: %s", m.n, g, now)
		require.True(m.t, o.killed || done == (o.err == nil) || now == m.kept[g] && o.err != nil, "step %d: GPU %d: %v", m.n, g, o.err)
		if now != "" {
			m.owner[g] = nil
		}
		m.kept[g] = now
	}
}
