package lease

import (
	"cmp"
	"slices"
	"strconv"
)

// maxMembers bounds the processes that Members tells of.
const maxMembers = 4096

// Process is one for ever: a process id is given again, but never with the same start
// time (/proc/PID/stat, field 22, in clock ticks since the boot).
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Inits finds the first process of a container by its name, which an element of its
// control groups' paths has, as Call.Cgroup says. It has to be process 1 of a namespace
// that a process of this machine made: no task can pass off one of its own as that. None
// where no such container runs; where there are several, somebody moved one there.
func (l Leases) Inits(name string) (inits []Process, err error) {
	err = l.pids(func(pid int) (bool, error) {
		text, err := readAll(l.proc() + "/" + strconv.Itoa(pid) + "/cgroup")
		if err != nil {
			return false, nil // it is gone
		}
		if _, within := l.groupsOf(text, name); !within {
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

// Members are the other processes in an init's pid namespace, or in one below: the first
// that started first. there is false where init is gone.
func (l Leases) Members(init Process) (others []Process, there bool, err error) {
	if there, err = l.Alive(init); err != nil || !there {
		return nil, false, err
	}
	s, err := l.searchOf(init.PID)
	if err != nil {
		return nil, false, err
	}
	if _, _, err := s.look(func(p process) bool {
		others = append(others, Process{p.pid, p.start})
		return len(others) == maxMembers
	}); err != nil {
		return nil, false, err
	}
	slices.SortFunc(others, func(a, b Process) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID)) })
	// While init was there, the namespace was its own, and no other one had its number.
	if there, err = l.Alive(init); err != nil || !there {
		return nil, false, err
	}
	return others, true, nil
}

// Alive tells whether a process is still there.
func (l Leases) Alive(p Process) (bool, error) { return l.alive(process{p.PID, p.Start}) }
