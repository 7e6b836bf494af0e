package exporter

import (
	"path"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/exporter/sysfile"
)

// search is what looking for GPUs gave.
type search struct {
	devices []Device
	driver  string
	dumps   map[string]bool // Dir -> the driver left a dump of the device
	match   driverMatchState
	err     error
}

// searchEvery is how old a search may be while nothing seems to have changed:
// some of what it reads, such as the owner of a node, shows in no list.
const searchEvery = time.Minute

// search looks for GPUs, under the same rules as reading one: with a deadline
// and only once at a time. Where it fails, the GPUs known before are reported
// on, for their own files tell how each of them is.
func (c *Collector) search(deadline <-chan time.Time) search {
	f := c.searches.start(flightKey{}, nil, func() search {
		if last := c.known.Load(); last != nil && !c.again.Swap(false) && !c.watch.changed(c.now()) {
			s := *last
			s.dumps = c.dumps()
			return s
		}
		devices, err := c.source()
		if err != nil {
			c.watch.forget()
			return search{err: err}
		}
		return search{devices: devices, driver: driverVersion(c.root), dumps: c.dumps(), match: matchDriver(c.root)}
	})
	s, ok := f.wait(deadline)
	switch {
	case !ok:
		c.count("", Failure{File: "search", Errno: signalTimeout})
	case s.err != nil:
		c.count("", Failure{File: "search", Errno: sysfile.ErrnoName(s.err)})
	default:
		if last := c.known.Swap(&s); last == nil || !sameDevices(last.devices, s.devices) {
			c.keep(s.devices)
		}
		return s
	}
	if last := c.known.Load(); last != nil {
		return *last
	}
	return search{}
}

func sameDevices(a, b []Device) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// dumps are the devices that the driver left a dump of (drivers/base/
// devcoredump.c): amdgpu does so when it resets a GPU. The dump goes after
// five minutes, or when somebody has read it, which is not done here.
func (c *Collector) dumps() map[string]bool {
	const class = "/sys/class/devcoredump"
	if unix.Access(c.dumpClass, unix.F_OK) != nil {
		return nil // as nearly always
	}
	entries, err := c.root.ReadDir(class)
	if err != nil || len(entries) == 0 {
		return nil
	}
	out := map[string]bool{}
	for _, e := range entries {
		if dir, err := c.root.Resolve(path.Join(class, e.Name(), "failing_device")); err == nil {
			out[dir] = true
		}
	}
	return out
}
