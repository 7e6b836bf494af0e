package lease

import (
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
)

// take is a create with any wish, which may wait, and may be killed.
func (m *model) take() {
	if len(m.containers) > 8 || len(m.queue) > 4 || m.busyProcs() {
		m.delete()
		return
	}
	m.made++
	k := &taker{Call: m.call("c"+strconv.Itoa(m.made), m.spawn("")), wake: make(chan bool), said: make(chan outcome)}
	k.want.Count = 1 + m.r.IntN(3)
	if m.r.IntN(4) == 0 {
		k.want.Of = m.r.Perm(len(m.owner))[:k.want.Count+m.r.IntN(2)]
	}
	if m.r.IntN(2) == 0 {
		k.want.Wait = time.Duration(1+m.r.IntN(100)) * time.Second
	}
	k.deadline = m.clock.Add(k.want.Wait)
	k.crashAt = m.dice()
	free := m.free(k.want)
	go func() {
		defer recovered(k.said)
		l := m.l
		l.step = func(string) { k.tick() }
		l.Sleep = func(time.Duration) {
			k.said <- outcome{asleep: true}
			if <-k.wake {
				panic(crash{})
			}
		}
		gpus, err := l.Take(k.Call, k.want)
		k.said <- outcome{gpus: gpus, err: err}
	}()
	m.outcome(k, <-k.said, free, len(m.queue))
}

// dice is the number of the file change before which a call is killed.
func (m *model) dice() int {
	if m.r.IntN(4) == 0 {
		return 1 + m.r.IntN(14)
	}
	return -1
}

func (k *taker) tick() {
	if k.crashAt--; k.crashAt == 0 {
		panic(crash{})
	}
}

func recovered(said chan outcome) {
	if r := recover(); r == any(crash{}) {
		said <- outcome{killed: true}
	} else if r != nil {
		panic(r)
	}
}

func (m *model) outcome(k *taker, o outcome, free []int, ahead int) {
	at := slices.Index(m.queue, k)
	fits := ahead == 0 && len(free) >= k.want.Count
	if !o.asleep && at >= 0 {
		m.queue = slices.Delete(m.queue, at, at+1)
	}
	waited := ""
	if at >= 0 {
		waited = " after waiting"
	}
	switch {
	case o.asleep:
		require.False(m.t, fits, "step %d: it waits for what is free", m.n)
		require.True(m.t, m.clock.Before(k.deadline))
		if at < 0 {
			m.queue = append(m.queue, k)
		}
	case o.killed:
		m.reap(k.PID)
		m.note("call killed")
	case o.err == nil:
		require.True(m.t, fits, "step %d: it got %v of %v, %d ahead", m.n, o.gpus, free, ahead)
		require.Len(m.t, o.gpus, k.want.Count)
		require.Subset(m.t, free, o.gpus)
		c := &container{Call: k.Call, gpus: o.gpus, called: m.clock, calls: []*inside{{pid: k.PID, create: true}}}
		for _, g := range o.gpus {
			m.owner[g] = c
		}
		m.containers = append(m.containers, c)
		m.note("taken" + waited)
	default:
		var r *Refusal
		require.ErrorAs(m.t, o.err, &r, "step %d", m.n)
		require.False(m.t, fits, "step %d: %v", m.n, o.err)
		require.False(m.t, m.clock.Before(k.deadline))
		m.reap(k.PID)
		m.note("refused" + waited)
	}
}

// wakeOne lets a waiter look, or kills it.
func (m *model) wakeOne() {
	if len(m.queue) == 0 {
		return
	}
	at := m.r.IntN(len(m.queue))
	if m.r.IntN(2) == 0 {
		at = 0
	}
	k := m.queue[at]
	if m.r.IntN(8) == 0 {
		m.killWaiter(k)
		return
	}
	k.crashAt = m.dice()
	free := m.free(k.want)
	k.wake <- false
	m.outcome(k, <-k.said, free, at)
}

func (m *model) killWaiter(k *taker) {
	k.wake <- true
	m.outcome(k, <-k.said, nil, 1)
	m.note("waiter killed")
}
