package lease

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Take leases GPUs to a container at its create, all that are wanted or none,
// and returns their indexes, lowest first. It waits where w allows. What can't
// be is a *Refusal; then, and with any other error, nothing is leased.
func (l Leases) Take(c Call, w Want) ([]int, error) {
	if err := l.checkCall(c); err != nil {
		return nil, err
	}
	if c.PidFile == "" {
		return nil, withoutPidFile(c.Container)
	}
	of, err := l.wanted(w)
	if err != nil {
		return nil, err
	}
	if w.Of != nil {
		w.Of = of
	}
	dir, err := l.openDir(true)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	if w.Count > len(of) {
		l.count(dir, func(n *Counters) { n.Impossible++ })
		return nil, &Refusal{Reason: Impossible, Count: w.Count, Of: l.named(w.Of), Total: len(l.GPUs)}
	}
	boot, err := l.boot()
	if err != nil {
		return nil, err
	}
	self, err := l.caller(c.PID)
	if err != nil {
		return nil, err
	}
	t := &taking{Leases: l, dir: dir, call: c, self: self, boot: boot, want: w, of: of, began: l.now()}
	defer t.close()
	return t.wait()
}

// taking is one Take.
type taking struct {
	Leases
	dir    int
	call   Call
	self   process
	boot   string
	want   Want
	of     []int
	began  time.Time
	ticket *ticket
}

func (t *taking) close() { t.ticket.close() }

// wait tries until it has its GPUs or the time is over.
func (t *taking) wait() ([]int, error) {
	deadline := t.began.Add(t.want.Wait)
	for {
		gpus, err := t.try(!t.now().Before(deadline))
		if gpus != nil || err != nil {
			return gpus, err
		}
		for behind := true; behind && t.now().Before(deadline); {
			t.sleep(pollEvery)
			ahead, err := t.ahead(t.dir, t.ticket, false)
			if err != nil {
				return nil, err
			}
			behind = len(ahead) > 0
		}
	}
}

// try leases if nobody comes before and enough is free. Else it queues, where
// that is still to do, and returns nothing; at last it refuses.
func (t *taking) try(last bool) ([]int, error) {
	s, err := t.lock(t.dir, t.all())
	if err != nil {
		return nil, err
	}
	defer s.close()
	now := t.now()
	if err := t.read(s, t.boot, now); err != nil {
		return nil, err
	}
	ahead, err := t.ahead(t.dir, t.ticket, true)
	if err != nil {
		return nil, err
	}
	free := s.free()
	candidates := slices.DeleteFunc(slices.Clone(free), func(g int) bool { return !slices.Contains(t.of, g) })
	switch {
	case len(ahead) == 0 && len(candidates) >= t.want.Count:
		return t.grant(s, t.choose(candidates, free, t.want.Count), now)
	case last:
		return nil, t.giveUp(s, len(ahead), now)
	case t.ticket == nil:
		t.ticket, err = t.join(t.dir, t.waiter())
	}
	if held := t.bury(s, now); held > 0 {
		t.count(t.dir, func(n *Counters) { n.HeldMS += held })
	}
	return nil, err
}

// grant writes the lease, and then only what may get lost.
func (t *taking) grant(s slots, gpus []int, now time.Time) ([]int, error) {
	r := record{
		boot: t.boot, container: t.call.Container, bundle: t.call.Bundle, pidFile: t.call.PidFile, cgroup: t.call.Cgroup,
		calls: []process{t.self}, phase: created, since: now, called: now, gpus: len(gpus),
	}
	held, err := t.write(s, r, gpus, now)
	if err != nil {
		return nil, err
	}
	t.leave(t.ticket)
	held += t.bury(s, now)
	t.count(t.dir, func(n *Counters) {
		n.Granted++
		n.HeldMS += held
		if t.ticket != nil {
			n.Waited++
			n.WaitedMS += millis(now.Sub(t.began))
		}
	})
	return gpus, nil
}

func (t *taking) giveUp(s slots, ahead int, now time.Time) error {
	held := t.bury(s, now)
	t.leave(t.ticket)
	t.count(t.dir, func(n *Counters) {
		n.HeldMS += held
		if t.ticket != nil {
			n.Timeout++
		} else {
			n.Busy++
		}
	})
	why := &Refusal{Reason: Busy, Count: t.want.Count, Of: t.named(t.want.Of), Total: len(t.GPUs), Ahead: ahead, At: now}
	states := s.states()
	for _, g := range t.of {
		why.States = append(why.States, states[g])
	}
	if t.ticket != nil {
		why.Reason, why.Waited = Timeout, now.Sub(t.began)
	}
	why.indexes = t.of
	return why
}

func (t *taking) waiter() Waiter {
	return Waiter{
		Container: t.call.Container, PID: t.call.PID, Count: t.want.Count, Of: t.named(t.want.Of),
		Since: t.began, Deadline: t.began.Add(t.want.Wait),
	}
}

// named returns the names of GPUs; nil for nil.
func (l Leases) named(gpus []int) (list []string) {
	for _, g := range gpus {
		list = append(list, l.GPUs[g])
	}
	return list
}

func millis(d time.Duration) uint64 { return uint64(max(0, d.Milliseconds())) }
