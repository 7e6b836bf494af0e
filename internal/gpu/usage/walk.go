package usage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// Each descriptor costs one to four microseconds, and a machine may have a hundred
// thousand. So a process without a GPU is scanned only at every fourth scan, users and new
// processes at each.
const (
	rescanEvery = 4
	maxPerOne   = 4096 // descriptors of one process
	maxFiles    = 256  // of those, DRM files
	perOne      = 5    // cost of opening a process's folder, in descriptors
	maxProcs    = 1 << 16
)

// walk finds the processes that hold DRM nodes open.
type walk struct {
	proc  string // as opened by this process
	links int
	turn  uint64
	seen  map[int]looked
	next  int // where the last scan stopped
	buf   [32 << 10]byte
	link  [256]byte
}

// looked records the last scan of a process. The inode number of its folder distinguishes
// it from a later process with the same number.
type looked struct {
	inode uint64
	turn  uint64
	user  bool
}

// user describes a process with open DRM nodes.
type user struct {
	pid int
	fds []open
}

type open struct{ fd, node string } // "7", "renderD128"

func newWalk(root host.Root, links int) walk {
	return walk{proc: root.Path("/proc"), links: links, seen: map[int]looked{}}
}

// run returns the users by their numbers.
func (w *walk) run(left *LeftOut) []user {
	w.turn++
	now := map[int]looked{}
	var order []int
	w.entries(w.proc, func(name string, inode uint64) bool {
		pid, err := strconv.Atoi(name)
		if err != nil || pid <= 0 {
			return true
		}
		l := w.seen[pid]
		if l.inode != inode {
			l = looked{inode: inode}
		}
		now[pid] = l
		order = append(order, pid)
		return len(order) < maxProcs
	})
	if len(order) == maxProcs {
		left.Limit++
	}
	w.seen = now
	w.sort(order)
	users, rest := []user(nil), w.links // users have a separate budget, so that others cannot hide them
	known, stopped := w.links, false
	for _, pid := range order {
		l, budget := now[pid], &rest
		if l.user {
			budget = &known
		}
		switch {
		case !l.user && l.turn != 0 && w.turn-l.turn < rescanEvery && (uint64(pid)+w.turn)%rescanEvery != 0:
			continue // scanned recently
		case *budget <= 0:
			if !stopped && !l.user {
				stopped, w.next = true, pid
			}
			left.Limit++
			continue
		}
		u, ok := w.look(pid, budget, left)
		if !ok {
			delete(now, pid)
			continue
		}
		now[pid] = looked{inode: l.inode, turn: w.turn, user: len(u.fds) > 0}
		if len(u.fds) > 0 {
			users = append(users, u)
		}
	}
	if !stopped {
		w.next = 0
	}
	slices.SortFunc(users, func(a, b user) int { return cmp.Compare(a.pid, b.pid) })
	return users
}

// sort puts the users first, then the processes that the last scan did not reach.
func (w *walk) sort(order []int) {
	rank := func(pid int) int {
		switch {
		case w.seen[pid].user:
			return 0
		case pid >= w.next:
			return 1
		}
		return 2
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
}

// look reads the descriptors of a process. ok is false if it has ended, or may not be read.
func (w *walk) look(pid int, budget *int, left *LeftOut) (u user, ok bool) {
	u.pid = pid
	number, full := 0, false
	*budget -= perOne
	err := w.entriesAt(path.Join(w.proc, strconv.Itoa(pid), "fd"), func(dir int, name string) bool {
		if name[0] < '0' || name[0] > '9' {
			return true
		}
		if number++; number > maxPerOne || len(u.fds) == maxFiles {
			full = true
			return false
		}
		*budget--
		n, err := unix.Readlinkat(dir, name, w.link[:])
		if err != nil || n <= 0 {
			return true // closed since
		}
		if node := gpuNode(w.link[:n]); node != "" {
			u.fds = append(u.fds, open{name, node})
		}
		return true
	})
	if full {
		left.Limit++
	}
	switch {
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		left.Unreadable++
		return u, false
	case err != nil:
		return u, false // it has ended
	}
	return u, true
}

// gpuNode returns the name of a descriptor's DRM node or NVIDIA node, "" for others.
func gpuNode(target []byte) string {
	const nvidia = "/dev/" + nvidiaNode
	if len(target) > len(nvidia) && string(target[:len(nvidia)]) == nvidia {
		digits := strings.TrimSuffix(string(target[len(nvidia):]), " (deleted)")
		if _, err := strconv.ParseUint(digits, 10, 8); err == nil {
			return nvidiaNode + digits
		}
		return "" // nvidiactl, nvidia-uvm: shared by all GPUs
	}
	return drmNode(target)
}

// drmNode returns the name of a descriptor's DRM node, "" for others.
func drmNode(target []byte) string {
	const folder = "/dev/dri/"
	if len(target) <= len(folder) || string(target[:len(folder)]) != folder {
		return ""
	}
	name := strings.TrimSuffix(string(target[len(folder):]), " (deleted)")
	for _, kind := range []string{"renderD", "card"} {
		if digits, ok := strings.CutPrefix(name, kind); ok {
			if _, err := strconv.ParseUint(digits, 10, 20); err == nil {
				return name
			}
		}
	}
	return ""
}

// entries calls each with the names in a folder, until it returns false.
func (w *walk) entries(dir string, each func(name string, inode uint64) bool) error {
	return w.readDir(dir, func(_ int, name string, inode uint64) bool { return each(name, inode) })
}

func (w *walk) entriesAt(dir string, each func(dir int, name string) bool) error {
	return w.readDir(dir, func(fd int, name string, _ uint64) bool { return each(fd, name) })
}

// readDir makes plain system calls: os.ReadDir sorts, allocates an object for each entry,
// and drops the inode numbers from the kernel.
func (w *walk) readDir(dir string, each func(fd int, name string, inode uint64) bool) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		n, err := unix.ReadDirent(fd, w.buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		for b := w.buf[:n]; len(b) > 19; { // struct linux_dirent64 in getdents64(2)
			size := int(binary.NativeEndian.Uint16(b[16:]))
			if size < 19 || size > len(b) {
				break
			}
			name := b[19:size]
			if end := slices.Index(name, 0); end >= 0 {
				name = name[:end]
			}
			if len(name) > 0 && !each(fd, string(name), binary.NativeEndian.Uint64(b)) {
				return nil
			}
			b = b[size:]
		}
	}
}
