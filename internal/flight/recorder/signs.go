package recorder

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/kernellog"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/signs"
)

// cards holds the GPUs of the machine as the kernel names them. It keeps those that are gone,
// because the kernel's lines about a card that left the bus come after its files.
type cards struct {
	dirs  map[string]string   // of each card, by its PCI address; "" of one that others use
	below map[string][]string // the cards below a port
	named map[string]named    // by card: the process that the last line names
}

type named struct {
	pid int
	at  time.Time
}

// namedTime is the longest time from the line that names a process to the reset of its ring.
const namedTime = time.Minute

// add notes the GPUs of this machine, and the addresses of all cards of the driver.
func (k *cards) add(devices []gpu.Slot, all []string) {
	if k.dirs == nil {
		k.dirs, k.below, k.named = map[string]string{}, map[string][]string{}, map[string]named{}
	}
	for _, card := range all {
		if _, known := k.dirs[card]; !known {
			k.dirs[card] = ""
		}
	}
	for _, d := range devices {
		k.dirs[d.PCI] = d.Sysfs
		for _, port := range pci.Ports(d.Sysfs) {
			if !slices.Contains(k.below[port], d.PCI) {
				k.below[port] = append(k.below[port], d.PCI)
			}
		}
	}
}

// of returns the cards that a line is about. A line without an address belongs to the only
// one.
func (k *cards) of(m kernellog.Message, f signs.Found, sign bool) []string {
	address := m.Device
	if f.Device != "" {
		address = f.Device
	}
	switch below, port := k.below[address]; {
	case port && (!sign || f.Sign == nil):
		return nil
	case port:
		return below
	case address != "":
		return []string{address}
	case sign && len(k.dirs) == 1:
		return slices.Collect(maps.Keys(k.dirs))
	}
	return nil
}

// name notes the process that a line names.
func (k *cards) name(on []string, f signs.Found, at time.Time) {
	for _, card := range on {
		if f.PID > 0 && k.named != nil {
			k.named[card] = named{f.PID, at}
		}
	}
}

// eventOf returns the event of a sign for a task, without a kind for none.
func (r *Recorder) eventOf(c *container, f signs.Found, card string, at time.Time) (e taskrecord.Event) {
	e = taskrecord.Event{At: at, GPU: c.gpuOf(card)}
	switch {
	case f.Sign == nil:
	case f.Meaning == signs.Stuck:
		e.Kind = taskrecord.GPUStuck
	case f.Meaning == signs.RingReset:
		e.Kind = taskrecord.RingReset
		if n, ok := r.gpus.cards.named[card]; ok && at.Sub(n.at) <= namedTime {
			e.Detail = r.causerOf(c, n.pid)
		}
	case f.Meaning.Hang():
		e.Kind = taskrecord.GPUReset
	case f.Meaning == signs.Lost:
		e.Kind = taskrecord.GPULost
	case f.Meaning == signs.Memory:
		e.Kind = taskrecord.GPUError
	}
	return e
}

// causerOf returns the detail of a RingReset. A number that no process has can be of a program that
// ended, or of another namespace.
func (r *Recorder) causerOf(c *container, pid int) string {
	owner := r.owner(pid)
	_, alive := r.process(pid)
	switch {
	case owner == c:
		return taskrecord.ByTask
	case owner != nil || alive:
		return taskrecord.ByOther
	}
	return ""
}

// noteLost adds events for the GPUs of a task that left the bus.
func (r *Recorder) noteLost(c *container) {
	for _, g := range c.head.GPUs {
		dir := r.gpus.cards.dirs[pci.OfSlot(g.Name)]
		if dir != "" && !r.Root.Exists(dir) {
			r.note(c, taskrecord.Event{At: c.ended, Kind: taskrecord.GPULost, GPU: g.Name})
		}
	}
}

// lateTime is the time after the end of a task in which a sign is of the task, if no other had
// the GPU since: the firmware notices only when the next program comes, or the driver gives
// up the queues of the last.
const lateTime = 5 * time.Minute

// late holds ended tasks with GPUs, the newest first.
type late []*container

func (l *late) add(c *container) {
	if len(c.head.GPUs) > 0 && !c.unstarted {
		*l = append(late{c}, *l...)
	}
}

// countLate forgets and counts the tasks that no late sign can change.
func (r *Recorder) countLate(now time.Time) {
	r.late = slices.DeleteFunc(r.late, func(c *container) bool {
		over := now.Sub(c.ended).Abs() > lateTime
		if over {
			r.count(c)
		}
		return over
	})
}

// last returns the last task on a card, or nil if it ended too long before.
func (l late) last(card string, at time.Time) *container {
	for _, c := range l {
		if c.gpuOf(card) != "" {
			if at.Sub(c.ended) <= lateTime {
				return c
			}
			return nil
		}
	}
	return nil
}

// readLateFaults adds the faults of ended tasks that quarantine found, or judged, since.
func (r *Recorder) readLateFaults(now time.Time) (err error) {
	if r.countLate(now); len(r.late) == 0 {
		return nil
	}
	q := r.faults()
	if q.At.Equal(r.faultsAt) {
		return nil
	}
	r.faultsAt = q.At
	for _, c := range r.late {
		if c.exit != nil && *c.exit == 0 {
			continue
		}
		for _, e := range verdict.FaultsOf(&taskrecord.Record{Head: c.head, Events: c.record.Events}, q) {
			err = errors.Join(err, r.amend(c, e))
		}
	}
	return err
}

// amend adds a sign to the record of an ended task, and judges the task again.
func (r *Recorder) amend(c *container, e taskrecord.Event) error {
	if c.late++; c.late > maxRepeats {
		return nil
	}
	c.record.Events = append(c.record.Events, e)
	c.end.Evidence = c.evidence
	if err := r.Store.Amend(c.handle, e, c.end); err != nil {
		return err
	}
	whole, err := r.whole(c)
	if err != nil {
		return err
	}
	v := verdict.Decide(&whole)
	if c.uncounted != nil {
		c.uncounted = &v
	}
	r.report.Add(&whole, v)
	r.changed = true
	return nil
}

// passedOn reports whether another task began on a card of an ended one since, which has the
// card's trouble. A hang can be of the task before if that did not end by itself.
func (r *Recorder) passedOn(c *container, card string, f signs.Found) bool {
	const byTimeout, bySignal = 124, 128 // of timeout(1), and the lowest
	late := f.Sign != nil && (f.Meaning.Hang() || f.Meaning == signs.Stuck)
	if c.ended.IsZero() || late && (c.exit == nil || *c.exit > bySignal || *c.exit == byTimeout) {
		return false
	}
	for _, next := range r.containers {
		if next.recorded && next.gpuOf(card) != "" && next.began.After(c.ended) {
			return true
		}
	}
	return false
}

// readLine adds a line of the kernel to the records that it belongs to.
func (r *Recorder) readLine(m kernellog.Message) (err error) {
	f := parse(m)
	found, sign := signs.Read(m.Text)
	on := r.gpus.cards.of(m, found, sign)
	r.gpus.cards.name(on, found, m.At)
	if f.pid == 0 {
		f.pid = found.PID
	}
	owner := r.owner(f.pid)
	f = r.addOOM(f, owner)
	used := map[string]bool{}
	for _, c := range r.containers {
		if !c.recorded || c.done {
			continue
		}
		gpu := ""
		for _, card := range on {
			if name := c.gpuOf(card); name != "" && !r.passedOn(c, card, found) {
				gpu, used[card] = name, true
				e := r.eventOf(c, found, card, m.At)
				if e.Kind != "" {
					r.note(c, e)
				}
			}
		}
		if gpu == "" && !f.of(c, owner) {
			continue
		}
		own := owner == c || gpu != "" && f.pid == 0
		c.addLine(taskrecord.Line{At: m.At, GPU: gpu, PID: f.pid, Own: own, Text: m.Text})
		if f.kind != "" {
			r.note(c, taskrecord.Event{At: m.At, Kind: f.kind, GPU: gpu, Detail: f.detail})
		}
	}
	for _, card := range on {
		c := r.late.last(card, m.At)
		if used[card] || c == nil {
			continue
		}
		if e := r.eventOf(c, found, card, m.At); e.Kind != "" {
			c.addLine(taskrecord.Line{At: m.At, GPU: e.GPU, PID: f.pid, Text: m.Text})
			err = errors.Join(err, r.amend(c, e))
		}
	}
	return err
}
