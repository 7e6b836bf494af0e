package lease

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A look at all processes of the machine counts only when none ended meanwhile:
// one that did can have left a child where the look had been already. Two looks
// that count are needed, and more than maxLooks are not made.
const (
	needLooks = 2
	maxLooks  = 20
)

// inside tells whether a process other than init is in init's pid namespace, or
// in one below. No process ever leaves it, whatever its privileges; and init has
// to be there, since all end with it (pid_namespaces(7)).
func (l Leases) inside(init int) (bool, error) {
	space, err := os.Readlink(l.space(init))
	if err != nil {
		return false, fmt.Errorf("cannot see the pid namespace of process %d: %w", init, err)
	}
	own, err := os.Readlink(l.proc() + "/self/ns/pid")
	if err != nil {
		return false, fmt.Errorf("cannot see this program's pid namespace: %w", err)
	}
	if space == own {
		return false, fmt.Errorf("process %d, the container's init, has no pid namespace of its own", init)
	}
	s := search{Leases: l, init: init, space: space, known: map[string]bool{space: true, own: false}}
	for look, good := 0, 0; look < maxLooks; look++ {
		found, sure, err := s.look()
		if found || err != nil {
			return found, err
		}
		if sure {
			good++
		}
		if good == needLooks {
			return false, nil
		}
	}
	return false, fmt.Errorf("cannot see who is in the container of process %d: processes come and go too fast", init)
}

func (l Leases) space(pid int) string { return l.proc() + "/" + strconv.Itoa(pid) + "/ns/pid" }

// search is for the processes of one pid namespace.
type search struct {
	Leases
	init  int
	space string
	known map[string]bool // namespaces: whether they are this one, or below
}

// look goes through all processes once.
func (s search) look() (found, sure bool, err error) {
	dir, err := unix.Open(s.proc(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, false, fmt.Errorf("cannot read %s: %w", s.proc(), err)
	}
	defer unix.Close(dir)
	sure = true
	var room [1024]byte // few at a time, as they end while others are looked at
	for {
		n, err := unix.ReadDirent(dir, room[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return false, sure, err
		}
		_, _, names := unix.ParseDirent(room[:n], -1, nil)
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil || pid == s.init {
				continue
			}
			in, err := s.has(pid)
			switch {
			case gone(err):
				sure = false
			case err != nil:
				return false, false, fmt.Errorf("cannot see the pid namespace of process %d: %w", pid, err)
			case in:
				return true, true, nil
			}
		}
	}
}

// has tells whether a process is in the namespace, and not only the rest of one.
func (s search) has(pid int) (bool, error) {
	space, err := os.Readlink(s.Leases.space(pid))
	if errors.Is(err, os.ErrPermission) && s.outermost(pid) {
		return false, nil // some are kept from root, too
	}
	if err != nil {
		return false, err
	}
	in, known := s.known[space]
	if !known {
		below := s.below
		if s.nested != nil {
			below = s.nested
		}
		if in, err = below(pid); err != nil {
			return false, err
		}
		s.known[space] = in
	}
	if !in {
		return false, nil
	}
	p, alive, err := s.process(pid)
	if err == nil && p.pid == 0 {
		err = unix.ESRCH
	}
	return alive, err
}

// outermost tells whether a process is in the pid namespace of /proc itself, and so
// in none of a container: then it has one number only.
func (s search) outermost(pid int) bool {
	text, err := readAll(s.proc() + "/" + strconv.Itoa(pid) + "/status")
	_, numbers, ok := strings.Cut(text, "\nNSpid:")
	line, _, _ := strings.Cut(numbers, "\n")
	return err == nil && ok && len(strings.Fields(line)) == 1
}

// below tells whether the process's pid namespace was made in the one that is
// searched for. What is above this program's own can't be asked for.
func (s search) below(pid int) (bool, error) {
	fd, err := unix.Open(s.Leases.space(pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for err == nil {
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && "pid:["+strconv.FormatUint(st.Ino, 10)+"]" == s.space {
			unix.Close(fd)
			return true, nil
		}
		up := -1
		if err == nil {
			up, err = unix.IoctlRetInt(fd, unix.NS_GET_PARENT)
		}
		unix.Close(fd)
		fd = up
	}
	if errors.Is(err, unix.EPERM) {
		return false, nil
	}
	return false, err
}
