package lease

import (
	"strconv"

	"github.com/stretchr/testify/require"
)

// take is a create with any wish, which may be killed.
func (m *model) take() {
	if len(m.containers) > 8 || m.busyProcs() {
		m.delete()
		return
	}
	m.made++
	call := m.call("c"+strconv.Itoa(m.made), m.spawn(""))
	call.OwnProcess = m.r.IntN(3) == 0
	want := Want{Count: 1 + m.r.IntN(3)}
	if m.r.IntN(4) == 0 {
		want.Of = m.r.Perm(len(m.owner))[:want.Count+m.r.IntN(2)]
	}
	free := m.free(want)
	o := m.mayDie(func(l Leases) (o outcome) {
		o.gpus, o.err = l.Take(call, want)
		return o
	})
	fits := len(free) >= want.Count
	switch {
	case o.killed:
		m.reap(call.PID)
		m.note("call killed")
	case o.err == nil:
		require.True(m.t, fits, "step %d: it got %v of %v", m.n, o.gpus, free)
		require.Len(m.t, o.gpus, want.Count)
		require.Subset(m.t, free, o.gpus)
		c := &container{Call: call, gpus: o.gpus, called: m.clock, calls: []*inside{{pid: call.PID, create: true}}}
		for _, g := range o.gpus {
			m.owner[g] = c
		}
		m.containers = append(m.containers, c)
		m.note(map[bool]string{false: "taken", true: "container taken"}[call.OwnProcess])
	default:
		var r *Refusal
		require.ErrorAs(m.t, o.err, &r, "step %d", m.n)
		require.False(m.t, fits, "step %d: %v", m.n, o.err)
		m.reap(call.PID)
		m.note("refused")
	}
}

// mayDie makes a call that is killed, now and then, before a change of a file.
func (m *model) mayDie(call func(Leases) outcome) (o outcome) {
	left := -1
	if m.r.IntN(4) == 0 {
		left = 1 + m.r.IntN(14)
	}
	defer func() {
		if r := recover(); r == any(crash{}) {
			o = outcome{killed: true}
		} else if r != nil {
			panic(r)
		}
	}()
	l := m.l
	l.step = func(string) {
		if left--; left == 0 {
			panic(crash{})
		}
	}
	return call(l)
}
