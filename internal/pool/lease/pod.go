package lease

import (
	"slices"

	"golang.org/x/sys/unix"
)

// StartingPod is the holder's name between a kubelet's Allocate, which does not name the
// pod, and its list of pods.
const StartingPod = "a pod that is starting"

// SharingPods is the holder's name of a GPU that several pods may have at the same time. The
// caller keeps who they are, and releases the GPU after the last.
const SharingPods = "pods that share it"

// HoldForPod leases all of the GPUs to a pod, or none. GPUs that any pod holds already pass
// to this holder, because the caller is the only one that gives GPUs to pods. It returns a
// *Refusal if a task or a container holds one, or if a GPU is excluded and no pod holds it.
// After a kill some of the GPUs may be held, which Read shows.
func (l Leases) HoldForPod(holder string, gpus []int, excluded []Excluded) error {
	return l.hold(Pod, holder, gpus, excluded, slot.heldByPod)
}

// hold leases all of the GPUs to a holder of a kind without processes, or none. Held GPUs pass
// to it if passes returns true.
func (l Leases) hold(kind Kind, holder string, gpus []int, excluded []Excluded, passes func(slot) bool) error {
	k, err := l.startPodCall(gpus)
	if err != nil || k == nil {
		return err
	}
	defer k.close()
	k.passes = passes
	now := l.now()
	if err := l.read(k.slots, k.boot, now); err != nil {
		return err
	}
	if holder != StartingPod && k.allHeldBy(holder) {
		return nil
	}
	if err := k.refuse(excluded); err != nil {
		return err
	}
	r := record{kind: kind, boot: k.boot, container: holder, phase: holding, since: now, called: now, gpus: len(gpus)}
	granted := uint64(1)
	if k.allHeldBy(StartingPod) && holder != StartingPod {
		r.since, granted = k.slots[0].record.since, 0
	}
	held, err := l.write(k.slots, r, k.gpus, now)
	if err != nil {
		return err
	}
	l.count(k.dir, func(n *Counters) { n.Granted, n.HeldMS = n.Granted+granted, n.HeldMS+held })
	return nil
}

// ReleasePod frees the GPUs that pods hold, and leaves those of other holders alone.
func (l Leases) ReleasePod(gpus []int) error { return l.releaseHeld(gpus, slot.heldByPod) }

// releaseHeld frees those of the GPUs for which is returns true.
func (l Leases) releaseHeld(gpus []int, is func(slot) bool) error {
	k, err := l.startPodCall(gpus)
	if err != nil || k == nil {
		return err
	}
	defer k.close()
	now := l.now()
	if err := l.read(k.slots, k.boot, now); err != nil {
		return err
	}
	for i := range k.slots {
		if is(k.slots[i]) {
			k.slots[i].live = false
		}
	}
	held := l.endDead(k.slots, now)
	l.count(k.dir, func(n *Counters) { n.HeldMS += held })
	return nil
}

// podCall holds one call for a pod, with the files of its GPUs locked.
type podCall struct {
	Leases
	slots
	gpus []int
	dir  int
	boot string

	passes func(slot) bool // see hold
}

// startPodCall locks the files. It returns nil for no GPUs.
func (l Leases) startPodCall(gpus []int) (k *podCall, err error) {
	if len(gpus) == 0 {
		return nil, nil
	}
	k = &podCall{Leases: l, gpus: slices.Compact(slices.Sorted(slices.Values(gpus)))}
	if err := l.checkNames(); err != nil {
		return nil, err
	}
	if err := l.checkIndexes(k.gpus); err != nil {
		return nil, err
	}
	if k.boot, err = l.boot(); err != nil {
		return nil, err
	}
	if k.dir, err = l.createDir(); err != nil {
		return nil, err
	}
	if k.slots, err = l.lock(k.dir, k.gpus); err != nil {
		unix.Close(k.dir)
		return nil, err
	}
	return k, nil
}

func (k *podCall) close() {
	k.slots.close()
	unix.Close(k.dir)
}

// heldByPod reports whether a pod holds the GPU.
func (s slot) heldByPod() bool { return s.live && s.record != nil && s.record.kind == Pod }

// allHeldBy reports whether this pod holds all of them, as one lease.
func (k *podCall) allHeldBy(holder string) bool {
	for _, s := range k.slots {
		if !k.passes(s) || s.record.container != holder {
			return false
		}
	}
	return true
}

// refuse returns why the GPUs cannot be leased: other holders, or excluded GPUs. It returns
// nil if they can.
func (k *podCall) refuse(excluded []Excluded) error {
	want := Want{Of: k.gpus, Count: len(k.gpus)}
	busy := false
	for _, s := range k.slots {
		busy = busy || s.live && !k.passes(s)
		if i := slices.IndexFunc(excluded, func(w Excluded) bool { return w.GPU == s.gpu }); i >= 0 && !s.live {
			want.Excluded = append(want.Excluded, excluded[i])
		}
	}
	if !busy && len(want.Excluded) == 0 {
		return nil
	}
	why := &Refusal{
		Reason: NotInService, Kind: Pod, Count: want.Count, Of: k.named(k.gpus), Total: len(k.GPUs), At: k.now(),
		InService: want.Count - len(want.Excluded), Excluded: k.excludedText(want), indexes: k.gpus, label: k.Label,
	}
	if busy {
		why.Reason, why.States = Busy, k.states(k.slots)
	}
	k.count(k.dir, func(n *Counters) { n.Busy++ })
	return why
}
