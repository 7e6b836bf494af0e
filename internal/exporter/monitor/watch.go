package monitor

import (
	"hash/maphash"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/gpu/sysfile"
)

// watch tells cheaply whether a search for GPUs could find something else than
// the last one did: by the lists of DRM devices, of nodes and of KFD nodes. The
// time stamps of directories in sysfs do not change with their entries, so the
// entries themselves are compared.
type watch struct {
	seed maphash.Seed
	sum  uint64 // 0: none
	at   time.Time
	dirs [3]string // as this process opens them
	file string
	page [32 << 10]byte
}

func newWatch(root host.Root) *watch {
	w := &watch{seed: maphash.MakeSeed(), file: root.Path(generation)}
	for i, dir := range watched {
		w.dirs[i] = root.Path(dir)
	}
	return w
}

var watched = [3]string{"/sys/class/drm", "/dev/dri", "/sys/class/kfd/kfd/topology/nodes"}

// generation counts the changes of KFD's topology, as when a GPU is divided. It
// stands for the last of those lists where it can be read.
const generation = "/sys/class/kfd/kfd/topology/generation_id"

// changed is true where it can't tell, and when the last search is old.
func (w *watch) changed(now time.Time) bool {
	sum, ok := w.look()
	if !ok || sum != w.sum || now.Sub(w.at) >= searchEvery || now.Before(w.at) {
		w.sum, w.at = sum, now
		return true
	}
	return false
}

// forget makes the next look a change.
func (w *watch) forget() { w.sum = 0 }

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
	return h.Sum64() | 1, true
}

// entries adds a directory's entries as the kernel gives them: names with their
// inode numbers, which a device that was removed and found again does not keep.
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
