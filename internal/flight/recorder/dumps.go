package recorder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

// dumpClass has the dumps of drivers (drivers/base/devcoredump.c). The kernel removes a
// dump after five minutes. Reading does not remove it.
const dumpClass = "/sys/class/devcoredump"

const (
	maxDumps = 4 // of a task
	// dumpAge is the longest time for which the kernel keeps a dump.
	dumpAge = 5 * time.Minute
)

// dumps holds the names of the dumps that were seen, and those that are being copied.
type dumps struct {
	seen  map[string]bool
	ready chan copied
}

// copied holds the result of a copy.
type copied struct {
	handle string
	ref    taskrecord.DumpRef
	event  taskrecord.Event
}

// noteCopies adds the finished copies to the records.
func (r *Recorder) noteCopies() (err error) {
	for {
		select {
		case one := <-r.dumps.ready:
			if c := r.containers[one.handle]; c != nil && !c.done {
				c.evidence.Dumps, c.unsaved = append(c.evidence.Dumps, one.ref), true
				err = errors.Join(err, c.noteDump(one.event), c.save())
			}
		default:
			return err
		}
	}
}

// noteDump adds the event of a dump once. Its detail is the name of the dump.
func (c *container) noteDump(e taskrecord.Event) error {
	for _, known := range c.record.Events {
		if known.Kind == e.Kind && known.Detail == e.Detail {
			return nil
		}
	}
	c.copies++
	return c.event(e)
}

// kept reports whether the record has a copy of a dump.
func (c *container) kept(source string) bool {
	return slices.ContainsFunc(c.evidence.Dumps, func(d taskrecord.DumpRef) bool { return d.Source == source })
}

// readDumps copies new dumps of the tasks' GPUs into the store. At the first look, these are
// the dumps that were written while no recorder ran, and those of earlier tasks.
func (r *Recorder) readDumps() {
	d := &r.dumps
	first := d.ready == nil
	if first {
		d.seen, d.ready = map[string]bool{}, make(chan copied, 64)
	}
	entries, err := r.Root.ReadDir(dumpClass)
	if err != nil {
		return // almost always
	}
	now := map[string]bool{}
	for _, e := range entries {
		now[e.Name()] = true
		if d.seen[e.Name()] {
			continue
		}
		device, err := r.Root.Resolve(path.Join(dumpClass, e.Name(), "failing_device"))
		if err != nil {
			delete(now, e.Name()) // the link to the device comes after the folder
			continue
		}
		source := path.Join(dumpClass, e.Name(), "data")
		for _, c := range r.containers {
			gpu := c.gpuOf(path.Base(device))
			if gpu == "" || c.done || c.copies >= maxDumps || c.kept(source) {
				continue
			}
			event := taskrecord.Event{At: r.Now().UTC(), Kind: taskrecord.Dump, GPU: gpu, Detail: e.Name()}
			if first {
				r.Copy(func() { r.copyIfSince(c.head.Started, c.handle, source, event) })
				continue
			}
			if err := c.noteDump(event); err != nil {
				r.Log("%v", err)
			}
			r.Copy(func() { r.copyDump(c.handle, source, event) })
		}
	}
	d.seen = now
}

// copyIfSince copies a dump that was written after a time. A dump without a time is copied if
// that time is before the oldest dump that the kernel can have.
func (r *Recorder) copyIfSince(start time.Time, handle, source string, event taskrecord.Event) {
	at, ok := r.dumpTime(source, event.At)
	if !ok && event.At.Sub(start) < dumpAge || ok && at.Before(start) {
		return
	}
	if ok {
		event.At = at
	}
	r.copyDump(handle, source, event)
}

// dumpTime returns the time of amdgpu's dump. now is the time of the clock.
func (r *Recorder) dumpTime(source string, now time.Time) (time.Time, bool) {
	f, err := os.Open(r.Root.Path(source))
	if err != nil {
		return time.Time{}, false
	}
	defer f.Close()
	head := make([]byte, 512)
	n, _ := io.ReadFull(f, head)
	since, ok := dumpUptime(head[:n])
	up, known := r.uptime()
	return now.Add(since - up), ok && known && since <= up
}

// dumpUptime returns the time since the boot in the head of a dump: "time: 45.084775181"
// (amdgpu_dev_coredump.c).
func dumpUptime(head []byte) (time.Duration, bool) {
	for line := range strings.Lines(string(head)) {
		if text, ok := strings.CutPrefix(line, "time: "); ok && strings.HasSuffix(text, "\n") {
			d, err := time.ParseDuration(strings.TrimSpace(text) + "s")
			return d, err == nil && d >= 0
		}
	}
	return 0, false
}

// copyDump copies a dump. In a container the data may not be read: the host has it.
func (r *Recorder) copyDump(handle, source string, event taskrecord.Event) {
	ref := taskrecord.DumpRef{GPU: event.GPU, Source: source}
	f, err := os.Open(r.Root.Path(source))
	if err == nil {
		defer f.Close()
		ref, err = r.Store.KeepDump(handle, event.GPU, source, f)
	}
	if err != nil {
		ref.Why = fmt.Sprintf("cannot store the dump, which the machine with the driver keeps for five minutes: %v", err)
	}
	r.dumps.ready <- copied{handle, ref, event}
}
