package recorder

import (
	"errors"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

// resume takes over what a previous recorder has written.
func (c *container) resume(before taskrecord.Record) {
	c.head, c.began, c.record.Events = before.Head, before.Head.Started, before.Events
	c.evidence, c.resumed = before.Evidence, true
	for _, e := range before.Events {
		if c.repeats[e.Kind]++; e.Kind == taskrecord.Dump {
			c.copies++
		}
	}
}

// whole returns the record in the store, with the events and readings that could not be
// written.
func (r *Recorder) whole(c *container) (taskrecord.Record, error) {
	w := taskrecord.Record{Head: c.head}
	f, err := r.Store.Find(c.handle)
	if err == nil {
		if read, failed := f.Read(); failed != nil {
			err = failed
		} else {
			w = read
		}
	}
	if len(w.Events) < len(c.record.Events) {
		w.Events = c.record.Events
	}
	w.Machine = append(w.Machine, c.record.Machine...)
	for name, samples := range c.record.GPUs {
		if w.GPUs == nil {
			w.GPUs = map[string][]taskrecord.Sample{}
		}
		w.GPUs[name] = append(w.GPUs[name], samples...)
	}
	return w, err
}

func (c *container) event(e taskrecord.Event) error {
	if c.writer == nil || c.done || len(c.record.Events) >= maxEvents {
		return nil
	}
	if slices.Contains(repeated, e.Kind) {
		if c.repeats[e.Kind] == maxRepeats {
			return nil
		}
		c.repeats[e.Kind]++
	}
	c.record.Events = append(c.record.Events, e)
	return c.writer.Event(e)
}

// maxEvents bounds the events of a record. A task makes as many crashes as it likes, and a
// driver repeats itself: they leave room for others.
const (
	maxEvents  = 500
	maxRepeats = 20
)

var repeated = []taskrecord.EventKind{taskrecord.Crash, taskrecord.GPUStuck, taskrecord.RingReset,
	taskrecord.GPUReset, taskrecord.GPULost, taskrecord.GPUError}

// maxUnwritten bounds the readings of the machine and of each GPU that wait for a disk that is
// full. The last ones stay.
const maxUnwritten = 600

// flush writes the readings. Those that cannot be written are kept for the next time.
func (c *container) flush() (err error) {
	if c.writer == nil {
		return nil
	}
	write := func(gpu string, samples []taskrecord.Sample) []taskrecord.Sample {
		if failed := c.writer.Samples(gpu, samples); failed != nil {
			err = errors.Join(err, failed)
			return samples[max(0, len(samples)-maxUnwritten):]
		}
		return samples[:0]
	}
	c.record.Machine = write("", c.record.Machine)
	for name, samples := range c.record.GPUs {
		c.record.GPUs[name] = write(name, samples)
	}
	return errors.Join(err, c.save())
}

// save writes new evidence.
func (c *container) save() error {
	if !c.unsaved || c.done {
		return nil
	}
	err := c.writer.Evidence(c.evidence)
	c.unsaved = err != nil
	return err
}

// setGPUs adds GPUs that were not known at the begin of the record.
func (c *container) setGPUs(gpus []taskrecord.GPU) error {
	if len(gpus) == 0 {
		return nil
	}
	c.head.GPUs = gpus
	return c.writer.Head(c.head)
}
