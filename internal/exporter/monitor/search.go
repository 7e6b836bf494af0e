package monitor

import (
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd/amdgpu"
	"concourse-ci-machine/internal/gpu/sysfile"
)

// search is what looking for GPUs gave.
type search struct {
	devices []amdgpu.Device
	drivers map[gpu.Vendor]string // their versions
	dumps   map[string]bool       // Dir -> the driver left a dump of the device
	module  Module
	err     error
}

// searchEvery is how old a search may be while nothing seems to have changed:
// some of what it reads, such as the owner of a node, shows in no list.
const searchEvery = amdgpu.LookEvery

// search looks for GPUs, under the same rules as reading one: with a deadline
// and only once at a time. Where it fails, the GPUs known before are reported
// on, for their own files tell how each of them is.
func (m *Monitor) search(deadline <-chan time.Time) search {
	f := m.searches.start(flightKey{}, func() search {
		if last := m.known.Load(); last != nil && !m.again.Swap(false) && !m.watch.changed(m.now()) {
			s := *last
			s.dumps = m.dumps()
			return s
		}
		devices, err := m.source()
		if err != nil {
			m.watch.forget()
			return search{err: err}
		}
		return search{devices: devices, drivers: driverVersions(m.root, devices), dumps: m.dumps(), module: readModule(m.root)}
	})
	s, ok := f.wait(deadline)
	switch {
	case !ok:
		m.count("", amdgpu.Failure{File: "search", Errno: amdgpu.SignalTimeout})
	case s.err != nil:
		m.count("", amdgpu.Failure{File: "search", Errno: sysfile.ErrnoName(s.err)})
	default:
		if last := m.known.Swap(&s); last == nil || !slices.Equal(last.devices, s.devices) {
			m.keep(s.devices)
		}
		return s
	}
	if last := m.known.Load(); last != nil {
		return *last
	}
	return search{}
}

// dumps are the devices that the driver left a dump of (drivers/base/
// devcoredump.c): amdgpu does so when it resets a GPU. The dump goes after
// five minutes, or when somebody has read it, which is not done here.
func (m *Monitor) dumps() map[string]bool {
	const class = "/sys/class/devcoredump"
	if unix.Access(m.dumpClass, unix.F_OK) != nil {
		return nil // as nearly always
	}
	entries, err := m.root.ReadDir(class)
	if err != nil || len(entries) == 0 {
		return nil
	}
	out := map[string]bool{}
	for _, e := range entries {
		if dir, err := m.root.Resolve(path.Join(class, e.Name(), "failing_device")); err == nil {
			out[dir] = true
		}
	}
	return out
}
