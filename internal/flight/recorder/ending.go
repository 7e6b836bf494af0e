package recorder

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/garden"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// lookForEnd notes the end of the task's process. A task can end before it is seen: then
// the worker has its exit status.
func (r *Recorder) lookForEnd(ctx context.Context, c *container, now time.Time) {
	if c.kind != lease.Task {
		r.lookForHoldersEnd(c, now)
		return
	}
	end := func() { c.ended, c.ending = now, taskrecord.Exited }
	if c.own.pid == 0 {
		pid := readPID(filepath.Join(c.bundle, taskPID))
		if p, alive := r.process(pid); alive {
			c.own = p
			return
		}
		if pid > 0 { // it ran, and Concourse does not have its exit status yet
			end()
			return
		}
		if now.Sub(c.asked).Abs() >= r.Every {
			c.asked = now
			switch err := r.readExit(ctx, c); {
			case c.exit != nil:
				end()
			case errors.Is(err, garden.ErrNoExit) && now.Sub(c.began).Abs() >= startWait:
				c.ended, c.ending, c.unstarted = now, taskrecord.NotStarted, true
				if c.resumed { // it may have run while no recorder did
					c.ending = taskrecord.Unseen
				}
				return
			}
		}
		if p, alive := r.process(c.init.pid); !alive || p != c.init {
			end()
		}
		return
	}
	if p, alive := r.process(c.own.pid); !alive || p != c.own {
		end()
	}
}

// startWait bounds the time in which a command starts. Concourse starts it right after the
// container. If a container is older and never had a process of its task, the command did
// not start.
const startWait = time.Minute

// startLate begins a new record if the task starts nevertheless, as after a restart of the
// web.
func (r *Recorder) startLate(c *container, now time.Time) (err error) {
	own, alive := r.process(readPID(filepath.Join(c.bundle, taskPID)))
	if !alive {
		return nil
	}
	*c = *r.newContainer(c.holder, now)
	c.own = own
	if r.Store.Ended(c.handle) {
		err = r.Store.Remove(c.handle)
	}
	return errors.Join(err, r.identify(c))
}

// readEnded notes whether the task of an ended record can still start.
func (r *Recorder) readEnded(c *container) error {
	c.done, c.unstarted = true, false
	f, err := r.Store.Find(c.handle)
	if err != nil {
		return err
	}
	record, err := f.Read()
	if err != nil {
		return err
	}
	if c.unstarted = record.End.Ending == taskrecord.NotStarted; c.unstarted {
		v := verdict.Decide(&record)
		c.uncounted = &v
	}
	return nil
}

// faults returns quarantine's record, which is empty without GPUs.
func (r *Recorder) faults() quarantine.Record {
	q, _ := quarantine.RecordFile.Read(r.Root)
	return q
}

// programOf returns the program of a task that has GPUs, or "".
func programOf(q quarantine.Record, handle string) string {
	for _, run := range q.Runs {
		if run.Container == handle {
			return run.Program
		}
	}
	return ""
}

// maxPaces bounds the programs of a machine.
const maxPaces = 500

// addPace keeps the pace of a good run for later runs of its program.
func (r *Recorder) addPace(one *taskrecord.Record) {
	if one.End == nil || one.End.Program == "" || one.Failed() {
		return
	}
	all := append(slices.Clone(r.paces[one.End.Program]), taskrecord.PaceOf(one))
	r.paces[one.End.Program] = all[max(0, len(all)-taskrecord.MaxEarlier):]
	for program := range r.paces {
		if len(r.paces) > maxPaces && program != one.End.Program {
			delete(r.paces, program)
		}
	}
}

// awaitsFaults reports whether quarantine has not looked since a task with GPUs failed.
func (r *Recorder) awaitsFaults(c *container) bool {
	if len(c.head.GPUs) == 0 || c.exit != nil && *c.exit == 0 {
		return false
	}
	q := r.faults()
	return q.At.After(c.began) && !q.At.After(c.ended)
}

// end writes the end of a record and the verdict.
func (r *Recorder) end(c *container) error {
	if c.writer == nil || c.done {
		return nil
	}
	r.noteLost(c)
	q := r.faults()
	for _, e := range verdict.FaultsOf(&taskrecord.Record{Head: c.head, Events: c.record.Events}, q) {
		r.note(c, e)
	}
	c.done = true
	err := c.flush()
	e := r.endOf(c, q)
	if e.Ending == taskrecord.NoStatus {
		so, failed := r.whole(c)
		so.End = &e
		if err = errors.Join(err, failed); verdict.Decide(&so).Kind != "" { // it failed
			e.Ending = taskrecord.Exited
		}
	}
	c.end = e
	err = errors.Join(err, c.writer.End(e))
	whole, failed := r.whole(c)
	err, whole.End = errors.Join(err, failed), &e // also if it could not be written
	v := verdict.Decide(&whole)
	r.report.Add(&whole, v)
	r.addPace(&whole)
	c.uncounted, r.changed = &v, true
	r.late.add(c)
	err = errors.Join(err, r.exits.forget(c.exitFile()))
	if e.Ending == taskrecord.NoStatus {
		c.uncounted = nil
	}
	if v.Kind == "" || len(c.head.GPUs) == 0 && !c.unstarted {
		r.count(c)
	}
	if v.Kind != "" {
		text := ""
		if len(v.Reasons) > 0 {
			text = v.Reasons[0].Text
		}
		r.Log("%s %s: %s: %s", c.kind, c.handle, v.Kind, text)
	}
	return err
}

// endOf returns the end of a record.
func (r *Recorder) endOf(c *container, q quarantine.Record) taskrecord.End {
	e := taskrecord.End{Ended: c.ended, Ending: c.ending, Exit: c.exit, Unread: r.unread, Evidence: c.evidence,
		Clocks: c.clocks}
	e.Program, e.Earlier = programOf(q, c.handle), r.paces[programOf(q, c.handle)]
	if c.kind != lease.Task && c.exit == nil {
		e.Ending = taskrecord.NoStatus
	}
	return e
}

// count counts an ended task once, because a counter never falls. A task that can still start
// is counted when its container is removed, and a failed one with GPUs by countLate.
func (r *Recorder) count(c *container) {
	if c.uncounted != nil {
		r.report.Count(*c.uncounted)
		c.uncounted, r.changed = nil, true
	}
}
