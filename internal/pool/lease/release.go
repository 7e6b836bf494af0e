package lease

import (
	"cmp"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Cancel ends the lease that this process took for a container, if its create fails.
// Otherwise the lease ends with the process.
func (l Leases) Cancel(container string) error {
	dir, err := l.openDir()
	if dir < 0 || err != nil {
		return err
	}
	defer unix.Close(dir)
	pid := l.pid
	if pid == 0 {
		pid = os.Getpid()
	}
	self, err := l.callingProcess(pid)
	if err != nil {
		return err
	}
	s, err := l.lock(dir, l.all())
	if err != nil {
		return err
	}
	defer s.close()
	now := l.now()
	if err := l.read(s, "", now); err != nil {
		return err
	}
	var held uint64
	for _, o := range s {
		if r := o.record; r == nil || r.container != container || r.init.pid != 0 || len(r.calls) != 1 ||
			r.calls[0] != self {
			continue
		}
		if err := l.clear(o); err != nil {
			return err
		}
		held += millis(now.Sub(o.record.since))
	}
	l.count(dir, func(n *Counters) { n.HeldMS += held })
	return nil
}

// Release frees a GPU and returns its previous state. It frees a held GPU only with force:
// then its holder may still be using the GPU when another gets it.
func (l Leases) Release(gpu int, force bool) (State, error) {
	if err := l.checkNames(); err != nil {
		return State{}, err
	}
	if err := l.checkIndexes([]int{gpu}); err != nil {
		return State{}, err
	}
	dir, err := l.createDir()
	if err != nil {
		return State{}, err
	}
	defer unix.Close(dir)
	boot, err := l.boot()
	if err != nil {
		return State{}, err
	}
	s, err := l.lock(dir, []int{gpu})
	if err != nil {
		return State{}, err
	}
	defer s.close()
	now := l.now()
	if err := l.read(s, boot, now); err != nil {
		return State{}, err
	}
	was := l.states(s)[0]
	if was.Held && !force {
		r := Refusal{Count: 1, States: []State{was}, At: now, indexes: []int{gpu}}
		end := map[Kind]string{Container: "stop the container", Pod: "delete the pod", Claimed: "delete its pods",
			Run: "end the command"}[was.Kind]
		return was, fmt.Errorf("cannot release GPU: %s; %s, or use force=true if no process uses it",
			r.holders(), cmp.Or(end, "abort the build"))
	}
	if len(s[0].raw) == 0 {
		return was, nil
	}
	if err := l.clear(s[0]); err != nil {
		return was, err
	}
	if r := s[0].record; r != nil && r.phase != ended {
		l.count(dir, func(n *Counters) { n.HeldMS += millis(now.Sub(r.since)) })
	}
	return was, nil
}

// clear empties the GPU's file, so that no holder is recorded.
func (l Leases) clear(s slot) error {
	l.before("blank", s.name)
	if err := pwrite(s.fd, pad(nil)); err != nil {
		return fmt.Errorf("cannot write %s: %w", l.path(s.name), err)
	}
	return nil
}
