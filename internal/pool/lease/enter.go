package lease

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Enter lets an exec into a container that leased these GPUs at its create and has them in
// its cgroup for good. If the container still holds them, Enter only records the exec. If
// its task has ended, it leases the same GPUs again if all are free, and otherwise returns
// a *Refusal. c.PidFile is the file of create, or "" if its record still exists.
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
	dir, err := l.createDir()
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	boot, err := l.boot()
	if err != nil {
		return err
	}
	self, err := l.callingProcess(c.PID)
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
	r := c.record(self)
	r.boot, r.since, r.called, r.gpus = boot, now, now, len(gpus)
	if r.kind == Task {
		r.phase = entered
	}
	holdsAll := r.inherit(s)
	if slices.ContainsFunc(s, func(o slot) bool { return o.live && !o.belongsTo(c.Container, boot) }) {
		held := l.endDead(s, now)
		l.count(dir, func(n *Counters) { n.Busy, n.HeldMS = n.Busy+1, n.HeldMS+held })
		return &Refusal{Reason: Busy, Kind: r.kind, Count: len(gpus), Of: l.named(gpus), Total: len(l.GPUs),
			States: l.states(s), At: now, PreviousContainer: c.Container, indexes: gpus, label: l.Label}
	}
	if r.pidFile == "" {
		return missingPidFile(c)
	}
	// A container without a visible first process could use the GPUs unnoticed.
	if r.init, _, err = l.initOf(&r); err != nil || r.init.pid == 0 {
		return cannotEnter(r, err)
	}
	if r.calls, err = l.runningCalls(r); err != nil {
		return err
	}
	held, err := l.write(s, r, gpus, now)
	if err != nil || holdsAll {
		return err
	}
	l.count(dir, func(n *Counters) { n.Granted, n.HeldMS = n.Granted+1, n.HeldMS+held })
	return nil
}

// belongsTo reports whether the record is from this container.
func (s slot) belongsTo(container, boot string) bool {
	return s.record != nil && s.record.container == container && s.record.boot == boot
}

// inherit copies data from the container's own records, and reports whether the container
// holds all of the GPUs.
func (r *record) inherit(s slots) (holdsAll bool) {
	holdsAll = true
	for _, o := range s {
		if !o.belongsTo(r.container, r.boot) {
			holdsAll = false
			continue
		}
		r.bundle, r.pidFile, r.cgroup = o.record.bundle, o.record.pidFile, o.record.cgroup
		r.init, r.stepHash = o.record.init, o.record.stepHash
		r.program = cmp.Or(r.program, o.record.program)
		for _, c := range o.record.calls {
			if !slices.Contains(r.calls, c) {
				r.calls = append(r.calls, c)
			}
		}
		if holdsAll = holdsAll && o.live; holdsAll {
			r.since = o.record.since
		}
	}
	if !holdsAll {
		r.since = r.called
	}
	return holdsAll
}

func cannotEnter(r record, err error) error {
	if err == nil {
		err = errors.New("its first process has ended")
	}
	return fmt.Errorf("cannot enter container %s, which has separate GPUs: %w; run the task again", r.container, err)
}

// runningCalls drops the calls that have ended, because their processes are in the cgroup.
// Other execs that run at the same time must stay in the record.
func (l Leases) runningCalls(r record) ([]process, error) {
	calls := slices.DeleteFunc(r.calls, func(c process) bool {
		alive, err := l.alive(c)
		return err == nil && !alive
	})
	if len(calls) > maxCalls {
		return nil, fmt.Errorf("cannot enter container %s: %d other calls of runc are in progress in it; try "+
			"again", r.container, len(calls)-1)
	}
	return calls, nil
}
