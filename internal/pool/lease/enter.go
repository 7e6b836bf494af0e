package lease

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Enter lets an exec into a container that leased these GPUs at its create; they
// are in its cgroup for good. Where it holds them still, the exec is noted; where
// its task has ended, it gets the same ones again if all are free. Else it is a
// *Refusal. c.PidFile is that of create, or "" where its record is still there.
func (l Leases) Enter(c Call, gpus []int) error {
	if len(gpus) == 0 {
		return nil
	}
	if err := l.checkCall(c); err != nil {
		return err
	}
	gpus = slices.Compact(slices.Sorted(slices.Values(gpus)))
	if err := l.checkIndexes(gpus); err != nil {
		return err
	}
	dir, err := l.openDir(true)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	boot, err := l.boot()
	if err != nil {
		return err
	}
	self, err := l.caller(c.PID)
	if err != nil {
		return err
	}
	s, err := l.lock(dir, gpus)
	if err != nil {
		return err
	}
	defer s.close()
	now := l.now()
	if err := l.read(s, boot, now); err != nil {
		return err
	}
	r := c.record(boot, self, now)
	r.gpus = len(gpus)
	if r.kind == Task {
		r.phase = entered
	}
	holds := r.succeed(s)
	if slices.ContainsFunc(s, func(o slot) bool { return o.live && !o.of(c.Container, boot) }) {
		held := l.bury(s, now)
		l.count(dir, func(n *Counters) { n.Busy, n.HeldMS = n.Busy+1, n.HeldMS+held })
		return &Refusal{Reason: Busy, For: r.kind, Count: len(gpus), Of: l.named(gpus), Total: len(l.GPUs), States: l.states(s), At: now, Again: c.Container, indexes: gpus, label: l.Label}
	}
	if r.pidFile == "" {
		return withoutPidFile(c)
	}
	// Who can't be seen could use the GPUs unseen.
	if r.init, _, err = l.initOf(&r); err != nil || r.init.pid == 0 {
		return cannotEnter(r, err)
	}
	if r.calls, err = l.stillCalling(r); err != nil {
		return err
	}
	held, err := l.write(s, r, gpus, now)
	if err != nil || holds {
		return err
	}
	l.count(dir, func(n *Counters) { n.Granted, n.HeldMS = n.Granted+1, n.HeldMS+held })
	return nil
}

// of tells whether the record is one of this container.
func (s slot) of(container, boot string) bool {
	return s.record != nil && s.record.container == container && s.record.boot == boot
}

// succeed takes over what the container's own records say. It tells whether the
// container holds all of the GPUs.
func (r *record) succeed(s slots) (holds bool) {
	holds = true
	for _, o := range s {
		if !o.of(r.container, r.boot) {
			holds = false
			continue
		}
		r.bundle, r.pidFile, r.cgroup, r.init, r.like = o.record.bundle, o.record.pidFile, o.record.cgroup, o.record.init, o.record.like
		for _, c := range o.record.calls {
			if !slices.Contains(r.calls, c) {
				r.calls = append(r.calls, c)
			}
		}
		if holds = holds && o.live; holds {
			r.since = o.record.since
		}
	}
	if !holds {
		r.since = r.called
	}
	return holds
}

func cannotEnter(r record, err error) error {
	if err == nil {
		err = errors.New("its first process is gone")
	}
	return fmt.Errorf("cannot enter container %s, which has GPUs of its own: %w; run the task again", r.container, err)
}

// stillCalling drops the calls that are gone: what they started is in the cgroup.
// Another exec that is on its way at the same time has to be remembered.
func (l Leases) stillCalling(r record) ([]process, error) {
	calls := slices.DeleteFunc(r.calls, func(c process) bool {
		alive, err := l.alive(c)
		return err == nil && !alive
	})
	if len(calls) > maxCalls {
		return nil, fmt.Errorf("cannot enter container %s: %d other calls of runc are in progress in it; try again", r.container, len(calls)-1)
	}
	return calls, nil
}
