package lease

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/procfile"
)

// TaskPIDFile is the file in a container's bundle to which runc writes the pid of a task's
// own process. Concourse names that process "task" (atc/exec, task_step.go), and the shim
// names the file after it. Sessions of fly intercept have random names.
const TaskPIDFile = "task.pid"

// Remaining processes of an ended task are first noted, then get SIGTERM, then SIGKILL.
const (
	termDelay = 5 * time.Second
	killDelay = 10 * time.Second
	// killRounds bounds the work for processes that fork faster than they end.
	killRounds = 5
)

// Remnant describes processes that remained after a task's end, and the signal that they
// got.
type Remnant struct {
	Container string
	GPUs      []string // names
	Processes int
	Signal    unix.Signal
}

// taskEnded reports whether the own process of a task has ended. Concourse then treats the
// task as ended, even if other processes of its container still hold the GPU. If the
// process cannot be read, the task is reported as running.
func (l Leases) taskEnded(r *record) bool {
	switch {
	case r != nil && r.kind == Run:
		return l.runEnded(r)
	case r == nil || r.kind != Task || r.phase != entered:
		return false
	}
	for _, c := range r.calls { // one may be about to start the task's process
		if alive, err := l.alive(c); alive || err != nil {
			return false
		}
	}
	pid, err := l.readPID(r.bundle + "/" + TaskPIDFile)
	if err != nil {
		return false
	}
	s, err := l.searchOf(r.init.pid)
	if err != nil {
		return false
	}
	if pid == 0 { // the shim removes the file once Concourse has the exit status
		left, err := s.remaining()
		return err == nil && len(left) > 0
	}
	switch _, in, err := s.contains(pid); {
	case vanished(err), err == nil && !in:
		return true
	case err != nil:
		return false
	}
	outside, err := s.fromOutside(pid)
	return err == nil && !outside // otherwise another process has its number by now
}

// fromOutside reports whether the parent of a process in the namespace is outside of it.
// Only an exec makes such processes: a task's own process, or a session of fly intercept.
// Orphans become children of a process inside, mostly of the first one.
func (s search) fromOutside(pid int) (bool, error) {
	return s.outside(func() (int, error) { return s.parent(pid) })
}

func (s search) outside(look func() (parent int, err error)) (bool, error) {
	for range parentLooks {
		parent, err := look()
		switch {
		case err != nil:
			return false, err
		case parent == s.init:
			return false, nil
		case parent == 0: // outside of /proc's own namespace
			return true, nil
		}
		if _, in, err := s.contains(parent); !vanished(err) {
			return !in, err
		}
		// The parent is just ending: the kernel gives its children to another one.
		time.Sleep(time.Millisecond)
	}
	return true, nil
}

// parentLooks bounds the attempts for a process with a parent that is just ending.
const parentLooks = 50

// parent returns the parent of a process, and 0 if that is outside of /proc's own
// namespace.
func (s search) parent(pid int) (int, error) {
	text, err := readAll(s.proc() + "/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	stat, err := procfile.ParseStat(text)
	return stat.Parent, err
}

// remaining returns the processes of the namespace except the first one. It returns none if
// an exec still runs there.
func (s search) remaining() (left []Process, err error) {
	var failed error
	working, _, err := s.scan(func(p process) bool {
		outside, err := s.fromOutside(p.pid)
		if err != nil && !vanished(err) {
			failed = errors.Join(failed, fmt.Errorf("cannot see the pid namespace of process %d: %w", p.pid, err))
		}
		if outside {
			return true
		}
		left = append(left, Process{p.pid, p.start})
		return false
	})
	if err = errors.Join(err, failed); working || err != nil {
		return nil, err
	}
	return left, nil
}

// EndRemaining ends the remaining processes of ended tasks, so that their GPUs are free for
// the tasks that Concourse sends next. It is called every few seconds. The first call that
// sees such processes records the time, a later one sends SIGTERM, and a later one SIGKILL.
// A session of fly intercept in the container protects all of its processes. The files are
// locked during the call, so no exec enters a container while its processes are ended.
func (l Leases) EndRemaining(signal func(Process, unix.Signal) error) (ended []Remnant, err error) {
	states, _, err := l.Read()
	if err != nil || !slices.ContainsFunc(states, func(s State) bool { return s.Held && s.TaskEnded }) {
		return nil, err
	}
	dir, err := l.openDir()
	if dir < 0 || err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	boot, err := l.boot()
	if err != nil {
		return nil, err
	}
	s, err := l.lock(dir, l.all())
	if err != nil {
		return nil, err
	}
	defer s.close()
	now := l.now()
	if err := l.read(s, boot, now); err != nil {
		return nil, err
	}
	for i, o := range s {
		if !o.live || o.doubt != "" || slices.ContainsFunc(s[:i], o.same) || !l.taskEnded(o.record) {
			continue
		}
		one, failed := l.endRemaining(s, o, now, signal)
		if err = errors.Join(err, failed); one.Processes > 0 {
			ended = append(ended, one)
		}
	}
	return ended, err
}

func (s slot) same(o slot) bool { return bytes.Equal(s.raw, o.raw) }

func (l Leases) endRemaining(all slots, o slot, now time.Time,
	signal func(Process, unix.Signal) error) (ended Remnant, err error) {
	ended.Container = o.record.container
	var gpus []int
	for _, other := range all {
		if o.same(other) {
			gpus, ended.GPUs = append(gpus, other.gpu), append(ended.GPUs, other.name)
		}
	}
	remaining, err := l.remainingOf(o)
	if err != nil {
		return ended, err
	}
	left, err := remaining()
	if len(left) == 0 || err != nil {
		return ended, err
	}
	seen := now.Sub(time.UnixMilli(o.record.remainingSince))
	if o.record.remainingSince == 0 || seen < 0 { // or the clock was set back
		r := *o.record
		r.remainingSince = now.UnixMilli()
		_, err := l.write(all, r, gpus, now)
		return ended, err
	}
	rounds := 1
	switch {
	case seen < termDelay:
		return ended, nil
	case seen < killDelay:
		ended.Signal = unix.SIGTERM
	default:
		ended.Signal, rounds = unix.SIGKILL, killRounds
	}
	ended.Processes = len(left)
	for ; rounds > 0 && len(left) > 0; rounds-- {
		for _, p := range left {
			if failed := signal(p, ended.Signal); failed != nil && !errors.Is(failed, unix.ESRCH) {
				err = errors.Join(err, failed)
			}
		}
		if err != nil || rounds == 1 {
			break
		}
		if left, err = remaining(); vanished(err) {
			return ended, nil
		}
	}
	return ended, err
}

// remainingOf returns a function that finds the processes that remain of a holder.
func (l Leases) remainingOf(o slot) (func() ([]Process, error), error) {
	if o.record.kind == Run {
		return func() ([]Process, error) {
			left, err := l.InGroup(o.record.cgroup)
			return slices.DeleteFunc(left, func(p Process) bool { return p.PID == 0 }), err
		}, nil
	}
	in, err := l.searchOf(o.init)
	return in.remaining, err
}

// Signal sends a signal to a process, and not to a later one with the same number.
func (l Leases) Signal(p Process, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if there, err := l.Alive(p); err != nil || !there {
		return err
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}
