// Package clockpin fixes the clocks of GPUs for tasks that measure, and gives them back. A
// pinned GPU has a file that says for whom, written before the driver is told: whatever
// is killed where, who finds that file and not the task's lease gives the GPU back.
//
// The clocks of a GPU are its driver's own (auto) before it is pinned, else it is not
// pinned at all. So there is one way back, which can be gone again and again, and no
// record can bring back a setting that somebody has changed meanwhile.
//
// It is linked into runc-amd-wrapper, and so needs the standard library,
// golang.org/x/sys and the wrapper's own JSON only. The charm's look at a pinned GPU
// (package watcher) uses it as well.
package clockpin

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// DefaultDir is where the files of pinned GPUs lie: on disk, as a container of LXD can be
// started anew while the kernel of its host keeps what was set. Each names the boot that
// it was made in, and is void in another.
const DefaultDir = "/var/lib/concourse-ci-machine/gpu-bench"

// Devices is where sysfs has the directories of PCI devices.
const Devices = "/sys/bus/pci/devices"

// Pins are those of one unit.
type Pins struct {
	Dir  string // DefaultDir, if not a test's
	Proc string // /proc, if not a test's
	DRI  string // /dev/dri, if not a test's
	Now  func() time.Time
	// Sleep is between two attempts to lock a file that another process has.
	Sleep func(time.Duration)

	step func(next string) // called before each change; may never return
}

// Card is a GPU as it is to be pinned.
type Card struct {
	Name  string // of its lease
	Dir   string // of its PCI device in sysfs
	Level Level
}

// Task is for whom.
type Task struct {
	Container string
	Bundle    string // absolute; its verdict stands there, see Verdict
}

var errBusy = errors.New("another process is at it")

// Set pins a GPU that the task has leased. With an error it is as it was.
func (p Pins) Set(c Card, t Task) error {
	f, err := p.lock(c.Name, true)
	if err != nil {
		return err
	}
	defer f.close()
	boot, err := p.boot()
	if err != nil {
		return err
	}
	if _, err := f.giveBack(p, c.Dir, boot); err != nil {
		return err
	}
	defer p.wake(c.Dir)()
	if err := c.pinnable(); err != nil {
		return err
	}
	r := Record{Task: t, Boot: boot, Level: c.Level, Since: p.Now()}
	if err := f.write(p, &r); err != nil {
		return err
	}
	if err := p.apply(c); err != nil {
		_, failed := f.giveBack(p, c.Dir, boot)
		return Both(err, failed)
	}
	return nil
}

// Both is an error of one line, as it stands in a build's output.
func Both(first, second error) error {
	if first == nil || second == nil {
		return cmp.Or(first, second)
	}
	return fmt.Errorf("%w; and %w", first, second)
}

// Holder tells who leases a GPU now: a container, "" for nobody. It is asked while nobody
// can pin the GPU, so who does next has its lease by then.
type Holder func() (string, error)

// Back gives a GPU back whose pin is not that of its holder, and returns what the pin was;
// nil where nothing was to be done.
func (p Pins) Back(name, dir string, holder Holder) (was *Record, err error) {
	f, stays, boot, err := p.open(name, holder)
	if f == nil || err != nil {
		return nil, err
	}
	defer f.close()
	if stays != nil {
		return nil, nil
	}
	return f.giveBack(p, dir, boot)
}

// open locks a GPU's file, nil where there is none, and returns the pin that stays.
func (p Pins) open(name string, holder Holder) (f *file, stays *Record, boot string, err error) {
	if f, err = p.lock(name, false); f == nil || err != nil {
		return nil, nil, "", err
	}
	if boot, err = p.boot(); err == nil {
		var container string
		if r, wrong := f.read(); wrong == nil && r != nil && r.Boot == boot {
			if container, err = holder(); container == r.Container {
				stays = r
			}
		}
	}
	if err != nil {
		f.close()
		return nil, nil, "", err
	}
	return f, stays, boot, nil
}

// giveBack undoes what the file tells of. A file that is damaged tells nothing, so any of
// the levels that are ever set is undone.
func (f *file) giveBack(p Pins, dir, boot string) (was *Record, err error) {
	was, damaged := f.read()
	switch {
	case damaged == nil && was == nil:
		return nil, nil
	case was != nil && was.Boot != boot: // the boot undid it
	default:
		defer p.wake(dir)()
		now, err := readLevel(dir)
		if gone(err) { // and with it the setting
			break
		}
		if err != nil {
			return was, err
		}
		if was != nil && now == was.Level || was == nil && now.ours() {
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
