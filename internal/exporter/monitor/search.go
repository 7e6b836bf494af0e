package monitor

import (
	"hash/maphash"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/deadline"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/signs"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// search holds the result of a search for GPUs.
type search struct {
	devices []gpu.Slot
	compute []reading.Compute     // of the devices
	drivers map[gpu.Vendor]string // versions
	dumps   map[string]bool       // Dir -> the driver wrote a dump of the device
	module  Module
	err     error
}

// searchEvery is the longest time without a search. Some of its input, such as the owner of
// a node, changes no list.
const searchEvery = reading.LookEvery

// search finds the GPUs, with a deadline and one search at a time. If it fails, it returns
// the previous GPUs, because their own files still show the state of each.
func (m *Monitor) search(late <-chan time.Time) search {
	f := m.searches.Start(struct{}{}, func() search {
		if last := m.known.Load(); last != nil && !m.refresh.Swap(false) && !m.watch.changed(m.now()) {
			s := *last
			s.dumps = m.dumps()
			return s
		}
		devices, compute, err := m.source()
		if err != nil {
			m.watch.sum = 0 // so the next look is a change
			return search{err: err}
		}
		if compute == nil {
			compute = make([]reading.Compute, len(devices))
		}
		s := search{devices: devices, compute: compute, drivers: driverVersions(m.root, devices), dumps: m.dumps(),
			module: readModule(m.root)}
		m.kernel.addCards(signs.Cards(m.root))
		return s
	})
	s, ok := deadline.Wait(f, late)
	switch {
	case !ok:
		m.count("", amdgpu.Failure{File: "search", Errno: reading.SignalTimeout})
	case s.err != nil:
		m.count("", amdgpu.Failure{File: "search", Errno: sysfile.ErrnoName(s.err)})
	default:
		if last := m.known.Swap(&s); last == nil || !slices.Equal(last.devices, s.devices) {
			m.dropReaders(s.devices)
		}
		return s
	}
	if last := m.known.Load(); last != nil {
		return *last
	}
	return search{}
}

// dumps returns the devices with a dump (drivers/base/devcoredump.c). amdgpu writes a dump
// when it resets a GPU. The dump is removed after five minutes or when it is read, so it is
// not read here.
func (m *Monitor) dumps() map[string]bool {
	const class = "/sys/class/devcoredump"
	if unix.Access(m.dumpClass, unix.F_OK) != nil {
		return nil // almost always
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

// watch detects cheaply whether a search could differ from the last one, from the lists of
// DRM devices, of nodes and of KFD nodes, and from /dev/kfd. It compares entries, because
// the time stamps of directories in sysfs do not change with their entries.
type watch struct {
	seed maphash.Seed
	sum  uint64 // 0: none
	at   time.Time
	dirs [3]string // as opened by this process
	file string
	kfd  string
	page [32 << 10]byte
}

func newWatch(root host.Root) *watch {
	w := &watch{seed: maphash.MakeSeed(), file: root.Path(generation), kfd: root.Path("/dev/kfd")}
	for i, dir := range watched {
		w.dirs[i] = root.Path(dir)
	}
	return w
}

var watched = [3]string{"/sys/class/drm", "/dev/dri", "/sys/class/kfd/kfd/topology/nodes"}

// generation counts the changes of KFD's topology, for example when a GPU is divided. It
// replaces the last of the watched lists if it is readable.
const generation = "/sys/class/kfd/kfd/topology/generation_id"

// changed returns true if the lists cannot be read or differ, or if the last search is old.
func (w *watch) changed(now time.Time) bool {
	sum, ok := w.look()
	if !ok || sum != w.sum || now.Sub(w.at) >= searchEvery || now.Before(w.at) {
		w.sum, w.at = sum, now
		return true
	}
	return false
}

func (w *watch) look() (sum uint64, ok bool) {
	var h maphash.Hash
	h.SetSeed(w.seed)
	if !w.entries(&h, w.dirs[0]) {
		return 0, false
	}
	w.entries(&h, w.dirs[1])
	if n, err := sysfile.ReadInto(w.file, w.page[:]); err == nil {
		h.Write(w.page[:n])
	} else {
		w.entries(&h, w.dirs[2])
	}
	var kfd unix.Stat_t // stays zero without the node
	_ = unix.Lstat(w.kfd, &kfd)
	maphash.WriteComparable(&h, [...]any{kfd.Ino, kfd.Rdev, kfd.Ctim})
	return h.Sum64() | 1, true
}

// entries adds a directory's entries as the kernel returns them: names with inode numbers.
// A device that is removed and found again gets another inode number.
func (w *watch) entries(h *maphash.Hash, dir string) bool {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		h.WriteByte(0)
		return false
	}
	defer unix.Close(fd)
	for {
		n, err := unix.ReadDirent(fd, w.page[:])
		if err != nil || n <= 0 {
			h.WriteByte(1)
			return err == nil
		}
		h.Write(w.page[:n])
	}
}
