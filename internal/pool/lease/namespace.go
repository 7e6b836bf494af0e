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
	s, err := l.searchOf(init)
	if err != nil {
		return false, err
	}
	for look, good := 0, 0; look < maxLooks; look++ {
		found, sure, err := s.look(func(process) bool { return true })
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

// searchOf is for the pid namespace of a container's init, which is not this program's.
func (l Leases) searchOf(init int) (search, error) {
	space, err := os.Readlink(l.space(init))
	if err != nil {
		return search{}, fmt.Errorf("cannot see the pid namespace of process %d: %w", init, err)
	}
	own, err := os.Readlink(l.proc() + "/self/ns/pid")
	if err != nil {
		return search{}, fmt.Errorf("cannot see this program's pid namespace: %w", err)
	}
	if space == own {
		return search{}, fmt.Errorf("process %d, the container's init, has no pid namespace of its own", init)
	}
	return search{Leases: l, init: init, space: space, known: map[string]bool{space: true, own: false}}, nil
}

func (l Leases) space(pid int) string { return l.proc() + "/" + strconv.Itoa(pid) + "/ns/pid" }

// search is for the processes of one pid namespace.
type search struct {
	Leases
	init  int
	space string
	known map[string]bool // namespaces: whether they are this one, or below
}

// look goes through all processes once, until one in the namespace is enough. sure is
// false when one ended meanwhile.
func (s search) look(enough func(process) bool) (found, sure bool, err error) {
	sure = true
	err = s.pids(func(pid int) (bool, error) {
		if pid == s.init {
			return false, nil
		}
		p, in, err := s.has(pid)
		switch {
		case gone(err):
			sure = false
		case err != nil:
			return false, fmt.Errorf("cannot see the pid namespace of process %d: %w", pid, err)
		case in:
			found = enough(p)
		}
		return found, nil
	})
	return found, sure && err == nil, err
}

// pids visits the number of each process of the machine, until that is enough.
func (l Leases) pids(visit func(pid int) (enough bool, err error)) error {
	dir, err := unix.Open(l.proc(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", l.proc(), err)
	}
	defer unix.Close(dir)
	var room [1024]byte // few at a time, as they end while others are looked at
	for {
		n, err := unix.ReadDirent(dir, room[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		_, _, names := unix.ParseDirent(room[:n], -1, nil)
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			if enough, err := visit(pid); enough || err != nil {
				return err
			}
		}
	}
}

// has tells whether a process is in the namespace, and not only the rest of one.
func (s search) has(pid int) (p process, in bool, err error) {
	space, err := os.Readlink(s.Leases.space(pid))
	if errors.Is(err, os.ErrPermission) && s.outermost(pid) {
		return p, false, nil // some are kept from root, too
	}
	if err != nil {
		return p, false, err
	}
	in, known := s.known[space]
	if !known {
		below := s.below
		if s.nested != nil {
			below = s.nested
		}
		if in, err = below(pid); err != nil {
			return p, false, err
		}
		s.known[space] = in
	}
	if !in {
		return p, false, nil
	}
	p, alive, err := s.process(pid)
	if err == nil && p.pid == 0 {
		err = unix.ESRCH
	}
	return p, alive, err
}

// outermost tells whether a process is in the pid namespace of /proc itself, and so
// in none of a container: then it has one number only.
func (s search) outermost(pid int) bool {
	numbers, err := s.numbers(pid)
	return err == nil && len(numbers) == 1
}

// numbers are those that a process has, in the pid namespace of /proc first and in its
// own last.
func (l Leases) numbers(pid int) ([]string, error) {
	text, err := readAll(l.proc() + "/" + strconv.Itoa(pid) + "/status")
	_, numbers, _ := strings.Cut(text, "\nNSpid:")
	line, _, _ := strings.Cut(numbers, "\n")
	return strings.Fields(line), err
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
