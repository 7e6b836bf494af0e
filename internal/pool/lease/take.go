package lease

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Take leases GPUs to a container at its create, all that are wanted or none,
// and returns their indexes, lowest first. What can't be is a *Refusal; then,
// and with any other error, nothing is leased. It does not wait: nobody could
// tell it that the build is wanted no more (docs/explanation/gpu-leases.md).
func (l Leases) Take(c Call, w Want) ([]int, error) {
	gpus, err := l.Try(c, w)
	l.CountRefusal(err)
	return gpus, err
}

// CountRefusal counts a *Refusal of Try, after which the container is given up.
func (l Leases) CountRefusal(err error) {
	var refused *Refusal
	if !errors.As(err, &refused) {
		return
	}
	dir, err := l.openDir(true)
	if err != nil {
		return // as in count
	}
	defer unix.Close(dir)
	l.count(dir, func(n *Counters) {
		if refused.Reason == Impossible {
			n.Impossible++
		} else {
			n.Busy++
		}
	})
}

// Try does what Take does, and counts no refusal: its caller may try again.
func (l Leases) Try(c Call, w Want) ([]int, error) {
	if err := l.checkCall(c); err != nil {
		return nil, err
	}
	if c.PidFile == "" {
		return nil, withoutPidFile(c)
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
		return nil, &Refusal{Reason: Impossible, For: c.kind(), Count: w.Count, Of: l.named(w.Of), Total: len(l.GPUs)}
	}
	if len(w.Withheld) > 0 {
		of = slices.DeleteFunc(slices.Clone(of), func(g int) bool { return w.withheld(g) != "" })
	}
	if w.Count > len(of) {
		return nil, &Refusal{Reason: OutOfService, For: c.kind(), Count: w.Count, Of: l.named(w.Of), Total: len(l.GPUs), InService: len(of), Withheld: l.tellWithheld(w)}
	}
	boot, err := l.boot()
	if err != nil {
		return nil, err
	}
	self, err := l.caller(c.PID)
	if err != nil {
		return nil, err
	}
	t := &taking{Leases: l, dir: dir, call: c, self: self, boot: boot, want: w, of: of}
	return t.try()
}

// taking is one Take.
type taking struct {
	Leases
	dir  int
	call Call
	self process
	boot string
	want Want
	of   []int
}

// try leases if enough is free, else it refuses.
func (t *taking) try() ([]int, error) {
	s, err := t.lock(t.dir, t.all())
	if err != nil {
		return nil, err
	}
	defer s.close()
	now := t.now()
	if err := t.read(s, t.boot, now); err != nil {
		return nil, err
	}
	free := s.free()
	candidates := slices.DeleteFunc(slices.Clone(free), func(g int) bool { return !slices.Contains(t.of, g) })
	if len(candidates) < t.want.Count {
		return nil, t.giveUp(s, now)
	}
	candidates, unready := t.ready(candidates)
	if len(candidates) < t.want.Count {
		return nil, &Refusal{Reason: Unready, For: t.call.kind(), Count: t.want.Count, Of: t.named(t.want.Of), Total: len(t.GPUs), Unready: unready}
	}
	if other := slices.DeleteFunc(slices.Clone(candidates), t.avoids); len(other) >= t.want.Count {
		candidates = other
	}
	return t.grant(s, t.choose(candidates, free, t.want.Count), now)
}

// avoids reports whether a task like this one met a fault on the GPU.
func (t *taking) avoids(gpu int) bool {
	return t.call.StepHash != "" && slices.Contains(t.want.Avoid, Avoid{gpu, t.call.StepHash})
}

// grant writes the lease, and then only what may get lost.
func (t *taking) grant(s slots, gpus []int, now time.Time) ([]int, error) {
	r := t.call.record(t.boot, t.self, now)
	r.gpus = len(gpus)
	held, err := t.write(s, r, gpus, now)
	if err != nil {
		return nil, err
	}
	held += t.bury(s, now)
	t.count(t.dir, func(n *Counters) { n.Granted, n.HeldMS = n.Granted+1, n.HeldMS+held })
	return gpus, nil
}

func (t *taking) giveUp(s slots, now time.Time) error {
	held := t.bury(s, now)
	if held > 0 {
		t.count(t.dir, func(n *Counters) { n.HeldMS += held })
	}
	why := &Refusal{Reason: Busy, For: t.call.kind(), Count: t.want.Count, Of: t.named(t.want.Of), Total: len(t.GPUs), At: now, Withheld: t.tellWithheld(t.want), label: t.Label}
	states := t.states(s)
	for _, g := range t.of {
		why.States = append(why.States, states[g])
	}
	why.indexes = t.of
	return why
}

// named returns the names of GPUs; nil for nil.
func (l Leases) named(gpus []int) (list []string) {
	for _, g := range gpus {
		list = append(list, l.GPUs[g])
	}
	return list
}

// withheld is why nobody gets a GPU, "" where a task may.
func (w Want) withheld(gpu int) string {
	for _, o := range w.Withheld {
		if o.GPU == gpu {
			return o.Reason
		}
	}
	return ""
}

// ready are those of the free GPUs that can be given now, and why others can't.
func (t *taking) ready(free []int) (can []int, not string) {
	if t.want.Unready == nil {
		return free, ""
	}
	var texts []string
	for _, g := range free {
		why := t.want.Unready(g)
		if why == "" {
			can = append(can, g)
		} else if len(texts) < maxHolders {
			texts = append(texts, "GPU "+t.labelOf(g)+" "+why)
		}
	}
	return can, strings.Join(texts, ", ")
}

// labelOf is how texts name a GPU.
func (l Leases) labelOf(gpu int) string {
	if l.Label != nil {
		return l.Label(gpu)
	}
	return strconv.Itoa(gpu)
}

// tellWithheld says which of the GPUs that a task may get are withheld, and why.
func (l Leases) tellWithheld(w Want) string {
	var texts []string
	for _, o := range w.Withheld {
		if w.Of != nil && !slices.Contains(w.Of, o.GPU) {
			continue
		}
		if len(texts) == maxHolders {
			texts = append(texts, "and others")
			break
		}
		texts = append(texts, "GPU "+l.labelOf(o.GPU)+" "+o.Reason)
	}
	return strings.Join(texts, ", ")
}

func millis(d time.Duration) uint64 { return uint64(max(0, d.Milliseconds())) }
