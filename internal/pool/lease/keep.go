package lease

import (
	"slices"

	"golang.org/x/sys/unix"
)

// PodToCome is the holder's name between a kubelet's Allocate, which does not tell for
// whom it is, and its list of pods.
const PodToCome = "a pod that is starting"

// Keep leases GPUs to a pod: all or none. Those that a pod keeps already, by whatever
// name, become this holder's: who hands GPUs to pods is their one keeper, and knows. A GPU
// that a task or a container holds is a *Refusal, and so is a withheld one that no pod
// keeps. A kill in between leaves some of them kept; the keeper tells them by Read.
func (l Leases) Keep(holder string, gpus []int, withheld []Excluded) error {
	k, err := l.keeping(gpus)
	if err != nil || k == nil {
		return err
	}
	defer k.close()
	now := l.now()
	if err := l.read(k.slots, k.boot, now); err != nil {
		return err
	}
	if holder != PodToCome && k.all(holder) {
		return nil
	}
	if err := k.refuse(withheld); err != nil {
		return err
	}
	r := record{kind: Pod, boot: k.boot, container: holder, phase: holding, since: now, called: now, gpus: len(gpus)}
	granted := uint64(1)
	if k.all(PodToCome) && holder != PodToCome {
		r.since, granted = k.slots[0].record.since, 0
	}
	held, err := l.write(k.slots, r, k.gpus, now)
	if err != nil {
		return err
	}
	l.count(k.dir, func(n *Counters) { n.Granted, n.HeldMS = n.Granted+granted, n.HeldMS+held })
	return nil
}

// GiveBack makes GPUs free that pods keep, and leaves those alone that anybody else holds.
func (l Leases) GiveBack(gpus []int) error {
	k, err := l.keeping(gpus)
	if err != nil || k == nil {
		return err
	}
	defer k.close()
	now := l.now()
	if err := l.read(k.slots, k.boot, now); err != nil {
		return err
	}
	for i := range k.slots {
		if k.slots[i].kept() {
			k.slots[i].live = false
		}
	}
	held := l.bury(k.slots, now)
	l.count(k.dir, func(n *Counters) { n.HeldMS += held })
	return nil
}

// keeping is one call of the keeper's: the files of its GPUs, locked.
type keeping struct {
	Leases
	slots
	gpus []int
	dir  int
	boot string
}

// keeping is nil for no GPUs.
func (l Leases) keeping(gpus []int) (k *keeping, err error) {
	if len(gpus) == 0 {
		return nil, nil
	}
	k = &keeping{Leases: l, gpus: slices.Compact(slices.Sorted(slices.Values(gpus)))}
	if err := l.checkNames(); err != nil {
		return nil, err
	}
	if err := l.checkIndexes(k.gpus); err != nil {
		return nil, err
	}
	if k.boot, err = l.boot(); err != nil {
		return nil, err
	}
	if k.dir, err = l.openDir(true); err != nil {
		return nil, err
	}
	if k.slots, err = l.lock(k.dir, k.gpus); err != nil {
		unix.Close(k.dir)
		return nil, err
	}
	return k, nil
}

func (k *keeping) close() {
	k.slots.close()
	unix.Close(k.dir)
}

// kept tells whether a pod has it.
func (s slot) kept() bool { return s.live && s.record != nil && s.record.kind == Pod }

// all tells whether this holder keeps them all, as one lease.
func (k *keeping) all(holder string) bool {
	for _, s := range k.slots {
		if !s.kept() || s.record.container != holder {
			return false
		}
	}
	return true
}

// refuse says who else has one of them, or which is withheld.
func (k *keeping) refuse(withheld []Excluded) error {
	want := Want{Of: k.gpus, Count: len(k.gpus)}
	busy := false
	for _, s := range k.slots {
		busy = busy || s.live && !s.kept()
		if i := slices.IndexFunc(withheld, func(w Excluded) bool { return w.GPU == s.gpu }); i >= 0 && !s.live {
			want.Withheld = append(want.Withheld, withheld[i])
		}
	}
	if !busy && len(want.Withheld) == 0 {
		return nil
	}
	why := &Refusal{
		Reason: OutOfService, For: Pod, Count: want.Count, Of: k.named(k.gpus), Total: len(k.GPUs), At: k.now(),
		InService: want.Count - len(want.Withheld), Withheld: k.tellWithheld(want), indexes: k.gpus, label: k.Label,
	}
	if busy {
		why.Reason, why.States = Busy, k.states(k.slots)
	}
	k.count(k.dir, func(n *Counters) { n.Busy++ })
	return why
}
