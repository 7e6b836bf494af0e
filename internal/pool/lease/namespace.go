package lease

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A scan of all processes is complete only if none ended during it: an ending process can
// leave a child at a place that the scan has passed. The proof needs needLooks complete
// scans, and at most maxLooks are made.
const (
	needLooks = 2
	maxLooks  = 20
)

// hasOthersInside reports whether a process other than init is in init's pid namespace or
// below it. No process ever leaves it, whatever its privileges. If init has ended, all
// others have too (pid_namespaces(7)).
func (l Leases) hasOthersInside(init int) (bool, error) {
	s, err := l.searchOf(init)
	if err != nil {
		return false, err
	}
	for look, good := 0, 0; look < maxLooks; look++ {
		found, sure, err := s.scan(func(process) bool { return true })
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

// searchOf returns a search of the pid namespace of a container's init, which must not be
// this program's.
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
		return search{}, fmt.Errorf("process %d, the container's init, has no separate pid namespace", init)
	}
	return search{Leases: l, init: init, space: space, known: map[string]bool{space: true, own: false}}, nil
}

func (l Leases) space(pid int) string { return l.proc() + "/" + strconv.Itoa(pid) + "/ns/pid" }

// search looks for the processes of one pid namespace.
type search struct {
	Leases
	init  int
	space string
	known map[string]bool // namespaces, with true for this one and those below it
}

// scan visits all processes once, until enough returns true for one in the namespace. sure
// is false if a process ended during the scan.
func (s search) scan(enough func(process) bool) (found, sure bool, err error) {
	sure = true
	err = s.pids(func(pid int) (bool, error) {
		if pid == s.init {
			return false, nil
		}
		p, in, err := s.contains(pid)
		switch {
		case vanished(err):
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

// pids visits the number of each process of the machine, until visit returns true.
func (l Leases) pids(visit func(pid int) (enough bool, err error)) error {
	dir, err := unix.Open(l.proc(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", l.proc(), err)
	}
	defer unix.Close(dir)
	var room [1024]byte // few at a time, because processes end during the scan
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

// contains reports whether a process is in the namespace and has not ended.
func (s search) contains(pid int) (p process, in bool, err error) {
	space, err := os.Readlink(s.Leases.space(pid))
	if errors.Is(err, os.ErrPermission) && s.outermost(pid) {
		return p, false, nil // some cannot be read even by root
	}
	if err != nil {
		return p, false, err
	}
	in, known := s.known[space]
	if !known {
		below := s.isNested
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

// outermost reports whether a process is in the pid namespace of /proc itself, and so in no
// container: then it has only one number.
func (s search) outermost(pid int) bool {
	numbers, err := s.numbers(pid)
	return err == nil && len(numbers) == 1
}

// numbers returns the numbers of a process in its pid namespaces, from that of /proc to its
// own.
func (l Leases) numbers(pid int) ([]string, error) {
	text, err := readAll(l.proc() + "/" + strconv.Itoa(pid) + "/status")
	_, numbers, _ := strings.Cut(text, "\nNSpid:")
	line, _, _ := strings.Cut(numbers, "\n")
	return strings.Fields(line), err
}

// isNested reports whether the process's pid namespace was made inside the searched one.
// Namespaces above this program's own cannot be read.
func (s search) isNested(pid int) (bool, error) {
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

// maxMembers bounds the processes that Members returns.
const maxMembers = 4096

// Process identifies one process forever: a process id is used again, but never with the
// same start time (/proc/PID/stat, field 22, in clock ticks since the boot).
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Inits finds the first process of a container by its name, which is part of its control
// groups' paths as in Call.Cgroup. It must be process 1 of a namespace that a process of
// this machine made, so no task can present a process of its own. It returns none if no
// such container runs, and several only if one was moved there.
func (l Leases) Inits(name string) (inits []Process, err error) {
	err = l.pids(func(pid int) (bool, error) {
		text, err := readAll(l.proc() + "/" + strconv.Itoa(pid) + "/cgroup")
		if err != nil {
			return false, nil // it has ended
		}
		if _, within := l.containerGroups(text, name); !within {
			return false, nil
		}
		if numbers, err := l.numbers(pid); err != nil || len(numbers) != 2 || numbers[1] != "1" {
			return false, nil
		}
		p, alive, err := l.process(pid)
		if alive {
			inits = append(inits, Process{p.pid, p.start})
		}
		return false, err
	})
	return inits, err
}

// Members returns the other processes in an init's pid namespace or below it, ordered by
// start time. there is false if init has ended.
func (l Leases) Members(init Process) (others []Process, there bool, err error) {
	if there, err = l.Alive(init); err != nil || !there {
		return nil, false, err
	}
	s, err := l.searchOf(init.PID)
	if err != nil {
		return nil, false, err
	}
	if _, _, err := s.scan(func(p process) bool {
		others = append(others, Process{p.pid, p.start})
		return len(others) == maxMembers
	}); err != nil {
		return nil, false, err
	}
	slices.SortFunc(others, func(a, b Process) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID))
	})
	// While init was there, the namespace was its own, and no other process had its number.
	if there, err = l.Alive(init); err != nil || !there {
		return nil, false, err
	}
	return others, true, nil
}

// Alive reports whether a process still exists.
func (l Leases) Alive(p Process) (bool, error) { return l.alive(process{p.PID, p.Start}) }

// ProcessOf returns the process that has this id now.
func (l Leases) ProcessOf(pid int) (Process, error) {
	p, alive, err := l.process(pid)
	if err == nil && !alive {
		err = fmt.Errorf("process %d has ended", pid)
	}
	return Process{p.pid, p.start}, err
}
