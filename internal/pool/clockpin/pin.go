// Package clockpin fixes the clocks of GPUs for tasks that measure, and restores them
// afterwards. A pinned GPU has a file that names the task, written before the driver is
// changed. After a kill at any point, a process that finds the file without the task's
// lease restores the GPU.
//
// A GPU is pinned only if the driver controls its clocks (auto). So restoring always sets
// the same value and can be repeated, and no record can restore a setting that was changed
// by hand since.
//
// The package is linked into runc-amd-wrapper, and so needs only the standard library,
// golang.org/x/sys and the wrapper's own JSON. The charm's watcher uses it too.
package clockpin

import (
	"cmp"
	"errors"
	"fmt"
	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// DefaultDir is the directory of the files of pinned GPUs. It is on disk, because an LXD
// container can be restarted while the kernel of its host keeps the setting. Each file
// names its boot, and is void after another one.
const DefaultDir = "/var/lib/concourse-ci-machine/gpu-bench"

// Devices is the directory of PCI devices in sysfs.
const Devices = "/sys/bus/pci/devices"

// Pins holds the pins of one unit.
type Pins struct {
	Dir  string // DefaultDir, except in tests
	Proc string // /proc, except in tests
	DRI  string // /dev/dri, except in tests
	Now  func() time.Time
	// Sleep is called between two attempts to lock a file that another process has locked.
	Sleep func(time.Duration)

	step func(next string) // called before each change; may never return
}

// Clocks describes how the clocks of a GPU are fixed.
type Clocks struct {
	Dir   string `json:"sysfs"` // of its PCI device in sysfs, absolute
	Level Level  `json:"level"`
}

// Task identifies the task that a GPU is pinned for.
type Task struct {
	Container string
	Bundle    string // absolute; contains its verdict, see Verdict
}

var errBusy = errors.New("another process is at it")

// Set pins the GPU with this lease, which the task holds. After an error the GPU is unchanged.
func (p Pins) Set(gpu string, c Clocks, t Task) error {
	f, err := p.create(gpu)
	if err != nil {
		return err
	}
	defer f.close()
	boot, err := p.boot()
	if err != nil {
		return err
	}
	if _, err := f.restore(p, c.Dir, boot); err != nil {
		return err
	}
	defer p.wake(c.Dir)()
	if err := c.checkPinnable(); err != nil {
		return err
	}
	r := Record{Task: t, Boot: boot, Level: c.Level, Since: p.Now()}
	if err := f.write(p, &r); err != nil {
		return err
	}
	if err := p.apply(c); err != nil {
		_, failed := f.restore(p, c.Dir, boot)
		return JoinErrors(err, failed)
	}
	return nil
}

// JoinErrors joins errors in one line, as the output of a build needs.
func JoinErrors(first, second error) error {
	if first == nil || second == nil {
		return cmp.Or(first, second)
	}
	return fmt.Errorf("%w; and %w", first, second)
}

// Holder returns the container that leases a GPU now, and "" for none. It is called while
// no other process can pin the GPU, so the next one to pin it has its lease by then.
type Holder func() (string, error)

// Restore restores the clocks of a GPU if its pin does not belong to the current holder. It
// returns the removed pin, and nil if nothing was changed.
func (p Pins) Restore(name, dir string, holder Holder) (was *Record, err error) {
	f, valid, err := p.open(name, holder)
	if f == nil || err != nil {
		return nil, err
	}
	defer f.close()
	if valid != nil {
		return nil, nil
	}
	return f.restore(p, dir, f.boot)
}

// open locks a GPU's file, nil if it is missing, and returns the pin if it is valid.
func (p Pins) open(name string, holder Holder) (f *file, valid *Record, err error) {
	if f, err = p.lock(name); f == nil || err != nil {
		return nil, nil, err
	}
	if f.boot, err = p.boot(); err == nil {
		var container string
		if r, wrong := f.read(); wrong == nil && r != nil && r.Boot == f.boot {
			if container, err = holder(); container == r.Container {
				valid = r
			}
		}
	}
	if err != nil {
		f.close()
		return nil, nil, err
	}
	return f, valid, nil
}

// restore undoes the pin in the file. If the file is damaged, it undoes any level that this
// package sets.
func (f *file) restore(p Pins, dir, boot string) (was *Record, err error) {
	was, damaged := f.read()
	var newer *rawjson.NewerError
	switch {
	case errors.As(damaged, &newer):
		return nil, damaged
	case damaged == nil && was == nil:
		return nil, nil
	case was != nil && was.Boot != boot: // the boot undid it
	default:
		defer p.wake(dir)()
		now, err := readLevel(dir)
		if isMissing(err) { // and the setting with it
			break
		}
		if err != nil {
			return was, err
		}
		if was != nil && now == was.Level || was == nil && now.pins() {
			if err := p.setLevel(dir, auto); err != nil {
				return was, fmt.Errorf("cannot give GPU %s its own clocks back: %w", f.name, err)
			}
		}
	}
	return was, f.write(p, nil)
}

func (p Pins) before(what string) {
	if p.step != nil {
		p.step(what)
	}
}

// Hold locks a pin of the GPU's current holder, for a look at the GPU. It returns nil if
// there is no such pin. stale reports a pin of a task that no longer has the GPU.
func (p Pins) Hold(name, dir string, holder Holder) (held *HeldPin, stale bool, err error) {
	f, valid, err := p.open(name, holder)
	if f == nil || err != nil {
		return nil, false, err
	}
	if valid != nil {
		return &HeldPin{*valid, p, f, dir}, false, nil
	}
	defer f.close()
	r, err := f.read()
	return nil, r != nil || err != nil, nil
}

// HeldPin holds a valid pin with a locked file.
type HeldPin struct {
	Record
	pins Pins
	file *file
	dir  string
}

// Save writes the record and unlocks the file.
func (h *HeldPin) Save(r Record) error {
	defer h.file.close()
	return h.file.write(h.pins, &r)
}

// Now returns the GPU's current setting.
func (h *HeldPin) Now() (Level, error) { return readLevel(h.dir) }

// Read returns the record in a GPU's file without a lock, and nil for a GPU that is not
// pinned.
func (p Pins) Read(name string) (*Record, error) {
	data, err := os.ReadFile(filepath.Join(p.Dir, name))
	if err != nil || !IsWholeGPU(name) {
		return nil, err
	}
	r, err := decode(data)
	return r.named(name), err
}

func (r *Record) named(gpu string) *Record {
	if r != nil {
		r.GPU = gpu
	}
	return r
}

// ReadCurrent returns the pin of a GPU in this boot without a lock, and nil for none.
func (p Pins) ReadCurrent(name string) (*Record, error) {
	r, err := p.Read(name)
	if r == nil || err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	if boot, err := p.boot(); err != nil || boot != r.Boot {
		return nil, err
	}
	return r, nil
}
