// Package fixedclocks fixes the clocks of GPUs for tasks that measure, and restores them
// afterwards. Such a GPU has a file that names the task, written before the driver is
// changed. After a kill at any point, a process that finds the file without the task's
// lease restores the GPU.
//
// The clocks of a GPU are fixed only if the driver controls its clocks (auto). So restoring always sets
// the same value and can be repeated, and no record can restore a setting that was changed
// by hand since.
//
// The package is linked into runc-amd-wrapper, and so needs only the standard library,
// golang.org/x/sys and the wrapper's own JSON. The charm's watcher uses it too.
package fixedclocks

import (
	"cmp"
	"errors"
	"fmt"
	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// DefaultDir is the directory with a file for each GPU with fixed clocks. It is on disk, because an LXD
// container can be restarted while the kernel of its host keeps the setting. Each file
// names its boot, and is void after another one.
const DefaultDir = wellknown.StateDir + "/gpu-fixed-clocks"

// Devices is the directory of PCI devices in sysfs.
const Devices = "/sys/bus/pci/devices"

// Store accesses the fixed clocks of one unit.
type Store struct {
	Dir  string // DefaultDir, except in tests
	Proc string // /proc, except in tests
	DRI  string // /dev/dri, except in tests
	Now  func() time.Time
	// Sleep is called between two attempts to lock a file that another process has locked.
	Sleep func(time.Duration)

	step func(next string) // called before each change; may never return
}

// Clocks describes how the clocks of a GPU are fixed.
type Setting struct {
	Sysfs string `json:"sysfs"` // of its PCI device in sysfs, absolute
	Level Level  `json:"level"`
}

// Task identifies the task that has fixed clocks.
type Task struct {
	Container string
	Bundle    string // absolute; contains its verdict, see Verdict
}

var errBusy = errors.New("another process uses it")

// Set fixes the clocks of a GPU that the task leases. After an error the GPU is unchanged.
func (s Store) Set(gpu string, c Setting, t Task) error {
	f, err := s.create(gpu)
	if err != nil {
		return err
	}
	defer f.close()
	boot, err := s.boot()
	if err != nil {
		return err
	}
	if _, err := f.restore(s, c.Sysfs, boot); err != nil {
		return err
	}
	defer s.wake(c.Sysfs)()
	if err := c.checkFixable(); err != nil {
		return err
	}
	r := Measurement{Task: t, Boot: boot, Level: c.Level, Since: s.Now()}
	if err := f.write(s, &r); err != nil {
		return err
	}
	if err := s.apply(c); err != nil {
		_, failed := f.restore(s, c.Sysfs, boot)
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
// no other process can fix the clocks. So the next task to fix them has its lease by then.
type Holder func() (string, error)

// Restore restores the clocks of a GPU if its file names another task than the current holder. It
// returns the removed record, and nil if nothing was changed.
func (s Store) Restore(name, dir string, holder Holder) (was *Measurement, err error) {
	f, valid, err := s.open(name, holder)
	if f == nil || err != nil {
		return nil, err
	}
	defer f.close()
	if valid != nil {
		return nil, nil
	}
	return f.restore(s, dir, f.boot)
}

// open locks a GPU's file, nil if it is missing, and returns its record if it is valid.
func (s Store) open(name string, holder Holder) (f *file, valid *Measurement, err error) {
	if f, err = s.lock(name); f == nil || err != nil {
		return nil, nil, err
	}
	if f.boot, err = s.boot(); err == nil {
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

// restore undoes the setting in the file. If the file is damaged, it undoes any level that this
// package sets.
func (f *file) restore(s Store, dir, boot string) (was *Measurement, err error) {
	was, damaged := f.read()
	var newer *rawjson.NewerError
	switch {
	case errors.As(damaged, &newer):
		return nil, damaged
	case damaged == nil && was == nil:
		return nil, nil
	case was != nil && was.Boot != boot: // the boot undid it
	default:
		defer s.wake(dir)()
		now, err := readLevel(dir)
		if isMissing(err) { // and the setting with it
			break
		}
		if err != nil {
			return was, err
		}
		if was != nil && now == was.Level || was == nil && now.isFixed() {
			if err := s.setLevel(dir, auto); err != nil {
				return was, fmt.Errorf("cannot restore the clocks of GPU %s: %w", f.name, err)
			}
		}
	}
	return was, f.write(s, nil)
}

func (s Store) before(what string) {
	if s.step != nil {
		s.step(what)
	}
}

// Hold locks the record of the current holder, for a look at the GPU. It returns nil if
// there is no such record. stale reports a record of a task that no longer has the GPU.
func (s Store) Hold(name, dir string, holder Holder) (held *Held, stale bool, err error) {
	f, valid, err := s.open(name, holder)
	if f == nil || err != nil {
		return nil, false, err
	}
	if valid != nil {
		return &Held{*valid, s, f, dir}, false, nil
	}
	defer f.close()
	r, err := f.read()
	return nil, r != nil || err != nil, nil
}

// Held holds a valid record with a locked file.
type Held struct {
	Measurement
	store Store
	file  *file
	dir   string
}

// Save writes the record and unlocks the file.
func (h *Held) Save(r Measurement) error {
	defer h.file.close()
	return h.file.write(h.store, &r)
}

// Now returns the GPU's current setting.
func (h *Held) Now() (Level, error) { return readLevel(h.dir) }

// Read returns the record in a GPU's file without a lock, and nil for a GPU that is not
// pinned.
func (s Store) Read(name string) (*Measurement, error) {
	data, err := os.ReadFile(filepath.Join(s.Dir, name))
	if err != nil || !IsWholeGPU(name) {
		return nil, err
	}
	r, err := decode(data)
	return r.named(name), err
}

func (r *Measurement) named(gpu string) *Measurement {
	if r != nil {
		r.GPU = gpu
	}
	return r
}

// ReadCurrent returns the record of a GPU in this boot without a lock, and nil for none.
func (s Store) ReadCurrent(name string) (*Measurement, error) {
	r, err := s.Read(name)
	if r == nil || err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	if boot, err := s.boot(); err != nil || boot != r.Boot {
		return nil, err
	}
	return r, nil
}
