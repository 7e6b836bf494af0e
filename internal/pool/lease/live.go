package lease

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/procfile"
)

// execDue is how long a container keeps its GPUs after its create without an exec.
// Concourse's exec comes within a second.
const execDue = time.Minute

// verdict holds the result of checking a record against the kernel.
type verdict struct {
	live  bool
	init  int    // the container's init, 0 if it has none
	doubt string // why it is treated as live although this cannot be verified
}

func doubtful(init int, err error) verdict { return verdict{true, init, err.Error()} }

// judge reports whether the holder in a record can still use the GPU. A record that is not
// live cannot become live by itself: processes start in a container by an exec, which calls
// Enter first.
func (l Leases) judge(r *record, boot string, now time.Time) verdict {
	switch {
	case r.phase == ended || r.boot != boot:
		return verdict{}
	case r.kind == Pod, r.kind == Claimed: // until ReleasePod or ReleaseClaim
		return verdict{live: true}
	case r.kind == Run:
		return l.judgeRun(r)
	}
	// Calls first: before a call ends, it has put its process into the cgroup and its pid
	// into the file.
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
	case r.kind == Container: // it ends with its first process
		return verdict{live: true, init: init.pid}
	case r.phase == created: // Abs, because the clock may have been set back
		return verdict{live: now.Sub(r.called).Abs() < execDue, init: init.pid}
	}
	// Most live containers have others in the cgroup, which is a quick check. A privileged
	// task can leave the cgroup, so only an empty namespace proves the end.
	others := l.hasOthers(groups, init.pid)
	if !others {
		others, err = l.hasOthersInside(init.pid)
	}
	if err != nil {
		// it has ended, and so have all processes inside
		if again, _, gone := l.initOf(r); again.pid == 0 && gone == nil {
			return verdict{}
		}
		return doubtful(init.pid, err)
	}
	return verdict{live: others, init: init.pid}
}

// process returns the process that has this id now.
func (l Leases) process(pid int) (p process, alive bool, err error) {
	path := l.proc() + "/" + strconv.Itoa(pid) + "/stat"
	text, err := readAll(path)
	if vanished(err) {
		return p, false, nil
	}
	if err == nil {
		var s procfile.Stat
		if s, err = procfile.ParseStat(text); err == nil {
			return process{pid, s.Start}, s.Alive, nil
		}
	}
	return p, false, fmt.Errorf("cannot read %s: %w", path, err)
}

func (l Leases) alive(was process) (bool, error) {
	is, alive, err := l.process(was.pid)
	return alive && is == was, err
}

// vanished reports whether an error means that a process or a cgroup no longer exists.
func vanished(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV)
}

// initOf returns the container's init, or the zero process, and the directories of its
// cgroup. After the first exec init is identified by its start time. Before that no process
// of the task runs that could leave the cgroup.
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
	if vanished(err) {
		return process{}, nil, nil
	}
	if err != nil {
		return init, nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	groups, inside := l.containerGroups(text, r.cgroup)
	if !inside && r.init.pid == 0 {
		if still, err := l.mayHaveLeftGroup(r, pid); !still || err != nil { // another process has its number
			return process{}, nil, err
		}
	}
	return init, groups, nil
}

// mayHaveLeftGroup reports whether a process outside of the container's cgroup may still be
// its first one. The first process of a Container does the work, and with privileges it can
// leave its cgroup, but it stays process 1 of a namespace below this one. It may belong to
// another container by now, and then true is the safe answer.
func (l Leases) mayHaveLeftGroup(r *record, pid int) (bool, error) {
	if r.kind != Container {
		return false, nil
	}
	numbers, err := l.numbers(pid)
	if vanished(err) {
		return false, nil
	}
	return len(numbers) == 2 && numbers[1] == "1", err
}

// readPID reads a pid file and returns 0 if it is missing.
func (l Leases) readPID(path string) (pid int, err error) {
	text, err := readAll(path)
	if vanished(err) || errors.Is(err, unix.ENOTDIR) {
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
