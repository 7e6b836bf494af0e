package recorder

import (
	"errors"
	"fmt"
	"os"
	"path"

	"concourse-ci-machine/internal/pool/taskrecord"
)

// dumpClass has the dumps of drivers (drivers/base/devcoredump.c). The kernel removes a
// dump after five minutes. Reading does not remove it.
const dumpClass = "/sys/class/devcoredump"

const maxDumps = 4 // of a task

// dumps holds the names of the dumps that were seen, and those that are being copied.
type dumps struct {
	seen  map[string]bool
	ready chan copied
}

// copied is the result of a copy, which is made beside the looks because a dump has
// megabytes.
type copied struct {
	handle string
	ref    taskrecord.DumpRef
}

// noteCopies adds the finished copies to the records.
func (r *Recorder) noteCopies() (err error) {
	for {
		select {
		case one := <-r.dumps.ready:
			if c := r.containers[one.handle]; c != nil && !c.done {
				c.evidence.Dumps, c.unsaved = append(c.evidence.Dumps, one.ref), true
				err = errors.Join(err, c.save())
			}
		default:
			return err
		}
	}
}

// readDumps copies new dumps of the tasks' GPUs into the store. Dumps that are older than
// this recorder may be of earlier tasks.
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
		if first || d.seen[e.Name()] {
			continue
		}
		device, err := r.Root.Resolve(path.Join(dumpClass, e.Name(), "failing_device"))
		if err != nil {
			delete(now, e.Name()) // the link to the device comes after the folder
			continue
		}
		for _, c := range r.containers {
			gpu := c.gpuOf(path.Base(device))
			if gpu == "" || c.done || c.copies >= maxDumps {
				continue
			}
			c.copies++
			r.note(c, taskrecord.Event{At: r.Now().UTC(), Kind: taskrecord.Dump, GPU: gpu})
			go r.copyDump(c.handle, gpu, path.Join(dumpClass, e.Name(), "data"))
		}
	}
	d.seen = now
}

// copyDump copies a dump. In a container the data may not be read: the host has it.
func (r *Recorder) copyDump(handle, gpu, source string) {
	ref := taskrecord.DumpRef{GPU: gpu, Source: source}
	f, err := os.Open(r.Root.Path(source))
	if err == nil {
		defer f.Close()
		ref, err = r.Store.KeepDump(handle, gpu, source, f)
	}
	if err != nil {
		ref.Why = fmt.Sprintf("cannot keep the dump, which is on the machine with the driver for five minutes: %v", err)
	}
	r.dumps.ready <- copied{handle, ref}
}
