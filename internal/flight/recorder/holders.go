package recorder

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/runend"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// holder identifies a task, a run of gpukit or a container of another engine. A run or
// container is recorded while it leases GPUs, and a container without a lease from the scan that
// shows a GPU open in it.
type holder struct {
	kind          lease.Kind
	handle        string
	title, engine string
	gpus          []string // names of leased GPUs, or of those that are open without a lease; none of a task
	unleased      bool     // it leased no GPU when it was found
}

// inGroup reports whether an element of a control group's path is the holder's: a task's is
// its handle, a run's is gpukit-<id>, and engines add words to the id of a container.
func (h holder) inGroup(element string) bool {
	switch h.kind {
	case lease.Run:
		return element == groupOfRun+h.handle
	case lease.Container:
		return strings.Contains(element, h.handle)
	}
	return element == h.handle
}

// scanned returns its name in the scan of the GPUs' users, which has short ids of containers.
func (h holder) scanned() string { return lease.State{Container: h.handle}.ShortName() }

// groupOfRun begins the name of a run's control group.
const groupOfRun = "gpukit-"

// holders has what is known of runs and containers beside their processes.
type holders struct {
	ends map[string]runend.End // by the run's id
	file os.FileInfo           // of the ends when they were read
	scan os.FileInfo           // of the scan of the GPUs' users when it was read
}

// findHolders adds the runs and containers that lease GPUs, and the runs that ended unseen.
func (r *Recorder) findHolders(there map[string]bool, now time.Time) error {
	states, err := r.leases()
	for _, s := range states {
		if !s.Held || s.Kind != lease.Run && s.Kind != lease.Container || !taskrecord.IsName(s.Container) {
			continue
		}
		c := r.containers[s.Container]
		// a container is started again
		again := c != nil && c.done && s.Kind == lease.Container && s.PID != 0 && s.PID != c.init.pid
		if (c == nil || again) && len(there) < maxContainers && !r.ended(s.Container) {
			h := holder{kind: s.Kind, handle: s.Container, title: s.Title, engine: s.Engine}
			c = r.newContainer(h, cmp.Or(s.Since, now))
			c.init.pid = s.PID
			r.containers[h.handle] = c
		}
		if c != nil && !(s.Kind == lease.Run && r.ended(s.Container)) {
			there[s.Container] = true
		}
		if c != nil && !c.checked && !slices.Contains(c.gpus, s.GPU) {
			c.gpus = append(c.gpus, s.GPU)
		}
	}
	return errors.Join(err, r.findEnds(there))
}

// ended reports whether the command of a run has ended. Its client can have the GPUs for a moment
// more.
func (r *Recorder) ended(id string) bool {
	_, ended := r.holders.ends[id]
	return ended
}

// leases reads the leases of this machine's GPUs.
func (r *Recorder) leases() ([]lease.State, error) {
	dir := r.Root.Path(lease.DefaultDir)
	if _, err := os.Stat(dir); err != nil {
		return nil, nil // no GPU was ever leased
	}
	r.gpus.search()
	l := lease.Leases{Dir: dir, Proc: r.proc, Cgroup: r.cgroup, Euid: uint32(os.Geteuid()), Now: r.Now}
	for _, d := range r.gpus.devices {
		l.GPUs = append(l.GPUs, d.Address())
	}
	states, _, err := l.Read()
	return states, err
}

// findEnds reads the ends of runs if their file is new. It begins the records of runs that
// were too short to be seen, and of those that ended while no recorder ran.
func (r *Recorder) findEnds(there map[string]bool) error {
	info, err := os.Stat(r.Root.Path(runend.Path))
	if err != nil || r.holders.file != nil && os.SameFile(info, r.holders.file) {
		return nil // missing without runs; each write makes another file
	}
	all, err := runend.File.Read(r.Root)
	if err != nil {
		return err
	}
	before := r.holders.ends
	r.holders.file, r.holders.ends = info, map[string]runend.End{}
	for _, e := range all.Ends {
		r.holders.ends[e.ID] = e
		_, known := before[e.ID]
		if known || r.containers[e.ID] != nil || !taskrecord.IsName(e.ID) || r.Store.Ended(e.ID) {
			continue
		}
		c := r.newContainer(holder{kind: lease.Run, handle: e.ID, title: e.Title, gpus: e.GPUs}, e.Started)
		c.checked, c.recorded = true, true
		r.containers[e.ID], there[e.ID] = c, true
		c.finish(e.Ended)
		err = errors.Join(err, r.beginRecord(c))
	}
	return err
}

// identifyHolder begins the record of a run or container with a living process.
func (r *Recorder) identifyHolder(c *container) error {
	init, alive := r.process(c.init.pid)
	if !alive {
		return nil
	}
	if text, err := r.text(init.pid, "cgroup"); err == nil {
		c.group, _ = r.groupOf(text, c.inGroup)
	}
	c.checked, c.recorded, c.init = true, true, init
	if r.Store.Ended(c.handle) { // of the container before it was started again
		r.late = slices.DeleteFunc(r.late, func(l *container) bool { return l.handle == c.handle })
		if err := r.Store.Remove(c.handle); err != nil {
			return err
		}
	}
	return r.beginRecord(c)
}

// finish notes the end.
func (c *container) finish(at time.Time) { c.ended, c.ending = at, taskrecord.Exited }

// lookForHoldersEnd notes the end of a run or container.
func (r *Recorder) lookForHoldersEnd(c *container, now time.Time) {
	if e, ok := r.holders.ends[c.handle]; ok && c.kind == lease.Run {
		c.finish(e.Ended)
		return
	}
	if p, alive := r.process(c.init.pid); c.released || !alive || p != c.init {
		c.finish(now)
	}
}

// show reports the verdict on a run at once, because its client waits for it. The verdict at
// the end of its record replaces it.
func (r *Recorder) show(c *container) error {
	c.shown = true
	so, err := r.whole(c)
	if err != nil {
		return err
	}
	end := r.endOf(c, r.faults())
	so.End = &end
	r.report.Add(&so, verdict.Decide(&so))
	r.changed, r.urgent = true, true
	return nil
}
