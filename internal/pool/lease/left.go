package lease

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// taskPIDFile names the file in a container's bundle to which runc writes the pid of a task's
// own process. Concourse names that process "task" (atc/exec, task_step.go), and the shim
// names the file after it. Sessions of fly intercept have random names.
const taskPIDFile = "task.pid"

// Processes that an ended task left behind are first seen, then asked to end, then killed.
const (
	leftTerm = 5 * time.Second
	leftKill = 10 * time.Second
	// killRounds bounds what one look spends on processes that fork faster than they die.
	killRounds = 5
)

// Left describes processes that a task left behind, and the signal that they got.
type Left struct {
	Container string
	GPUs      []string // names
	Processes int
	Signal    unix.Signal
}

// taskEnded reports whether the own process of a task is gone. Then Concourse counts the
// task as ended, though other processes of its container still hold the GPU. What can't be
// read is reported as running.
func (l Leases) taskEnded(r *record) bool {
	if r == nil || r.kind != Task || r.phase != entered {
		return false
	}
	for _, c := range r.calls { // one may be about to start the task's process
		if alive, err := l.alive(c); alive || err != nil {
			return false
		}
	}
	pid, err := l.readPID(r.bundle + "/" + taskPIDFile)
	if err != nil {
		return false
	}
	s, err := l.searchOf(r.init.pid)
	if err != nil {
		return false
	}
	if pid == 0 { // the shim removes the file once Concourse knows the exit status
		left, err := s.leftBehind()
		return err == nil && len(left) > 0
	}
	switch _, in, err := s.has(pid); {
	case gone(err), err == nil && !in:
		return true
	case err != nil:
		return false
	}
	outside, err := s.fromOutside(pid)
	return err == nil && !outside // another process has its number by now
}

// fromOutside reports whether a process of the namespace has a parent outside of it. Only an
// exec makes such a process: a task's own one, or a session of fly intercept. Orphans are
// children of a process inside, mostly of the first one.
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
		if _, in, err := s.has(parent); !gone(err) {
			return !in, err
		}
		// The parent is just ending: the kernel gives its children to another one.
		time.Sleep(time.Millisecond)
	}
	return true, nil
}

// parentLooks bounds the looks at a process whose parent is just ending.
const parentLooks = 50

// parent returns the parent of a process, 0 if that is outside of /proc's own namespace.
func (s search) parent(pid int) (int, error) {
	text, err := readAll(s.proc() + "/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	words := append(strings.Fields(text[strings.LastIndexByte(text, ')')+1:]), "", "")
	return strconv.Atoi(words[1]) // after the state
}

// leftBehind returns the processes of the namespace besides the first one; none if an exec
// still works there.
func (s search) leftBehind() (left []Process, err error) {
	var failed error
	working, _, err := s.look(func(p process) bool {
		outside, err := s.fromOutside(p.pid)
		if err != nil && !gone(err) {
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

// EndLeft ends the processes that ended tasks left behind, so that their GPUs are free for
// the tasks that Concourse sends next. It is called every few seconds: the first call that
// sees such processes notes the time, a later one sends SIGTERM, and a later one SIGKILL.
// A session of fly intercept in the container keeps all of its processes. The files are
// locked meanwhile, so no exec enters a container while its processes are ended.
func (l Leases) EndLeft(signal func(Process, unix.Signal) error) (done []Left, err error) {
	states, _, err := l.Read()
	if err != nil || !slices.ContainsFunc(states, func(s State) bool { return s.Held && s.TaskEnded }) {
		return nil, err
	}
	dir, err := l.openDir(false)
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
		one, failed := l.endLeft(s, o, now, signal)
		if err = errors.Join(err, failed); one.Processes > 0 {
			done = append(done, one)
		}
	}
	return done, err
}

func (s slot) same(o slot) bool { return bytes.Equal(s.raw, o.raw) }

func (l Leases) endLeft(all slots, o slot, now time.Time, signal func(Process, unix.Signal) error) (done Left, err error) {
	done.Container = o.record.container
	var gpus []int
	for _, other := range all {
		if o.same(other) {
			gpus, done.GPUs = append(gpus, other.gpu), append(done.GPUs, other.name)
		}
	}
	in, err := l.searchOf(o.init)
	if err != nil {
		return done, err
	}
	left, err := in.leftBehind()
	if len(left) == 0 || err != nil {
		return done, err
	}
	seen := now.Sub(time.UnixMilli(o.record.left))
	if o.record.left == 0 || seen < 0 { // or the clock was set back
		r := *o.record
		r.left = now.UnixMilli()
		_, err := l.write(all, r, gpus, now)
		return done, err
	}
	rounds := 1
	switch {
	case seen < leftTerm:
		return done, nil
	case seen < leftKill:
		done.Signal = unix.SIGTERM
	default:
		done.Signal, rounds = unix.SIGKILL, killRounds
	}
	done.Processes = len(left)
	for ; rounds > 0 && len(left) > 0; rounds-- {
		for _, p := range left {
			if failed := signal(p, done.Signal); failed != nil && !errors.Is(failed, unix.ESRCH) {
				err = errors.Join(err, failed)
			}
		}
		if err != nil || rounds == 1 {
			break
		}
		if left, err = in.leftBehind(); gone(err) {
			return done, nil
		}
	}
	return done, err
}

// Signal sends a signal to that process and to no other one that has its number by now.
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
