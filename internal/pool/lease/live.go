package lease

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// execDue is how long a container keeps its GPUs after its create though no
// exec came. Concourse's comes within a second.
const execDue = time.Minute

// verdict is what the kernel says of a record.
type verdict struct {
	live  bool
	init  int    // the container's init, 0 for none
	doubt string // why it counts as live though that can't be seen
}

func doubtful(init int, err error) verdict { return verdict{true, init, err.Error()} }

// judge tells whether somebody can use the GPU for whom the record was made. A
// record that is not live never gets so by itself: what starts a process in a
// container is an exec, and that asks Enter first.
func (l Leases) judge(r *record, boot string, now time.Time) verdict {
	switch {
	case r.phase == ended || r.boot != boot:
		return verdict{}
	case r.kind == Pod: // until its keeper gives it back
		return verdict{live: true}
	}
	// Calls first: a call that is gone has put its process into the cgroup, and
	// its pid into the file, before it went.
	var calling bool
	for _, c := range r.calls {
		alive, err := l.alive(c)
		if err != nil {
			return doubtful(0, err)
		}
		calling = calling || alive
	}
	init, groups, err := l.initOf(r)
	switch {
	case err != nil:
		return doubtful(init.pid, err)
	case calling || init.pid == 0:
		return verdict{live: calling, init: init.pid}
	case r.kind == Container: // all of it ends with its first process
		return verdict{live: true, init: init.pid}
	case r.phase == created: // a clock that was set back holds it no longer either
		return verdict{live: now.Sub(r.called).Abs() < execDue, init: init.pid}
	}
	// Most of those that live are in the cgroup, which is quick to see. A
	// privileged task can leave it, and only that the namespace is empty counts.
	others := l.others(groups, init.pid)
	if !others {
		others, err = l.inside(init.pid)
	}
	if err != nil {
		if again, _, gone := l.initOf(r); again.pid == 0 && gone == nil { // and so is all that was inside
			return verdict{}
		}
		return doubtful(init.pid, err)
	}
	return verdict{live: others, init: init.pid}
}

// process is the one that has this id now.
func (l Leases) process(pid int) (p process, alive bool, err error) {
	path := l.proc() + "/" + strconv.Itoa(pid) + "/stat"
	text, err := readAll(path)
	if gone(err) {
		return p, false, nil
	}
	if err == nil {
		p.pid = pid
		if p.start, alive, err = decodeStat(text); err == nil {
			return p, alive, nil
		}
	}
	return p, false, fmt.Errorf("cannot read %s: %w", path, err)
}

func (l Leases) alive(was process) (bool, error) {
	is, alive, err := l.process(was.pid)
	return alive && is == was, err
}

// gone is how files of a process, or of a cgroup, say that it is.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV)
}

// decodeStat reads /proc/PID/stat: the name in parentheses can hold anything,
// state is the field after it, then the number of threads is the 20th and the
// start time the 22nd of all. A zombie is alive as long as it has other threads:
// a kill ends the first one sooner, and the rest still has the open files.
func decodeStat(text string) (start uint64, alive bool, err error) {
	const state, threads, startTime = 3, 20, 22
	at, found := state, ""
	for field := range strings.FieldsSeq(text[strings.LastIndexByte(text, ')')+1:]) {
		switch at {
		case state:
			alive = field != "Z" && field != "X" && field != "x"
		case threads:
			alive = alive || field != "0" && field != "1"
		case startTime:
			found = field
		}
		at++
	}
	if start, err = strconv.ParseUint(found, 10, 64); err != nil {
		return 0, false, fmt.Errorf("it has no start time: %q", text)
	}
	return start, alive, nil
}

// initOf returns the container's init, the zero process for none, and where its
// cgroup may lie. It is known by its start time, once an exec was let in: until
// then nothing of the task's runs, which could leave the cgroup.
func (l Leases) initOf(r *record) (init process, groups []string, err error) {
	pid := r.init.pid
	if pid == 0 {
		if pid, err = l.readPID(r.pidFile); pid == 0 || err != nil {
			return process{}, nil, err
		}
	}
	init, alive, err := l.process(pid)
	if err != nil || !alive || r.init.pid != 0 && init != r.init {
		return process{}, nil, err
	}
	path := l.proc() + "/" + strconv.Itoa(pid) + "/cgroup"
	text, err := readAll(path)
	if gone(err) {
		return process{}, nil, nil
	}
	if err != nil {
		return init, nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	groups, within := l.groupsOf(text, r.cgroup)
	if !within && r.init.pid == 0 {
		if still, err := l.leftGroup(r, pid); !still || err != nil { // another process has its number
			return process{}, nil, err
		}
	}
	return init, groups, nil
}

// leftGroup tells whether a process outside of the container's cgroup may still be its
// first one: that of a container works itself, and with privileges leaves its cgroup, but
// stays process 1 of a namespace that was made in this one. It may be another container's
// by now, which is the safe side.
func (l Leases) leftGroup(r *record, pid int) (bool, error) {
	if r.kind != Container {
		return false, nil
	}
	numbers, err := l.numbers(pid)
	if gone(err) {
		return false, nil
	}
	return len(numbers) == 2 && numbers[1] == "1", err
}

// readPID reads a pid file, 0 for none.
func (l Leases) readPID(path string) (pid int, err error) {
	text, err := readAll(path)
	if gone(err) || errors.Is(err, unix.ENOTDIR) {
		return 0, nil
	}
	if err == nil {
		pid, err = strconv.Atoi(strings.TrimSpace(text))
	}
	if err == nil && pid < 1 {
		err = errors.New("it holds no process id")
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return pid, nil
}
