package lease

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// MaxTitle is the largest size of a RunCall's Title, in bytes.
const MaxTitle = 200

// RunCall describes a process that leases GPUs for itself and for all that it starts.
type RunCall struct {
	ID    string // of the lease, a plain word that no other lease has: "run-4f1c0a2b91d3"
	Title string // for people, see MaxTitle
	PID   int
	Start uint64 // the process's start time
	// Group is the absolute directory of its control group of cgroup v2, in which only this
	// process and its descendants run. It may have no process yet. "" means none: then the
	// lease ends with the process.
	Group string
	// StepHash is equal for reruns of a job. "" means not known.
	StepHash string
}

func (c RunCall) check() error {
	switch {
	case c.ID == "" || strings.Trim(c.ID, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return fmt.Errorf("cannot lease GPUs: the run's name %q is not a plain word", c.ID)
	case len(c.Title) > MaxTitle:
		return fmt.Errorf("cannot lease GPUs to %s: its title has %d bytes, more than %d", c.ID, len(c.Title), MaxTitle)
	case c.PID < 1:
		return fmt.Errorf("cannot lease GPUs to %s: it names no process", c.ID)
	case c.Group != "" && !filepath.IsAbs(c.Group):
		return fmt.Errorf("cannot lease GPUs to %s: its control group %s is not an absolute path", c.ID, c.Group)
	}
	return nil
}

// TryForRun leases all of the wanted GPUs to a run, or none, and returns their indexes,
// lowest first. If they cannot be leased, the error is a *Refusal, which is not counted: see
// CountRefusal. The lease is valid while the process lives or another one is in its group.
func (l Leases) TryForRun(c RunCall, w Want) ([]int, error) {
	if err := errors.Join(l.checkNames(), c.check()); err != nil {
		return nil, err
	}
	boot, err := l.boot()
	if err != nil {
		return nil, err
	}
	self, err := l.callingProcess(c.PID)
	if err == nil && self.start != c.Start {
		err = fmt.Errorf("cannot lease GPUs to process %d: it has ended", c.PID)
	}
	if err != nil {
		return nil, err
	}
	return l.try(record{
		kind: Run, boot: boot, container: c.ID, title: c.Title, cgroup: c.Group, calls: []process{self}, phase: holding,
		stepHash: c.StepHash,
	}, w)
}

// EndRun frees the GPUs of a run at once. The caller knows that no process of the run uses
// them.
func (l Leases) EndRun(id string) error {
	dir, err := l.openDir()
	if dir < 0 || err != nil {
		return err
	}
	defer unix.Close(dir)
	boot, err := l.boot()
	if err != nil {
		return err
	}
	s, err := l.lock(dir, l.all())
	if err != nil {
		return err
	}
	defer s.close()
	now := l.now()
	if err := l.read(s, boot, now); err != nil {
		return err
	}
	for i := range s {
		if r := s[i].record; r != nil && r.kind == Run && r.container == id {
			s[i].live = false
		}
	}
	held := l.endDead(s, now)
	l.count(dir, func(n *Counters) { n.HeldMS += held })
	return nil
}

// judgeRun reports whether a run has a process: the one that leased, or one of its group.
func (l Leases) judgeRun(r *record) verdict {
	there, err := l.runProcess(r)
	switch {
	case err != nil:
		return doubtful(0, err)
	case there:
		return verdict{live: true, init: r.calls[0].pid}
	}
	left, err := l.inGroup(r.cgroup, 1)
	if err != nil {
		return doubtful(0, err)
	}
	return verdict{live: len(left) > 0}
}

// runProcess reports whether the process that leased still exists.
func (l Leases) runProcess(r *record) (bool, error) {
	for _, c := range r.calls {
		if alive, err := l.alive(c); alive || err != nil {
			return alive, err
		}
	}
	return false, nil
}

// runEnded reports whether the process of a run has ended while others of its group remain.
// The caller knows that the lease is valid.
func (l Leases) runEnded(r *record) bool {
	there, err := l.runProcess(r)
	return err == nil && !there
}

// InGroup returns the processes of a control group and all below it, at most 4096. It returns
// none if the group does not exist. A process of another pid namespace has number 0.
func (l Leases) InGroup(dir string) ([]Process, error) { return l.inGroup(dir, maxMembers) }

func (l Leases) inGroup(dir string, limit int) (list []Process, err error) {
	if dir == "" {
		return nil, nil
	}
	groups := 0
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case vanished(err):
			return nil
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		}
		if groups++; groups > maxGroups {
			return fmt.Errorf("there are more than %d control groups", maxGroups)
		}
		text, err := readAll(path + "/cgroup.procs")
		if vanished(err) || errors.Is(err, unix.EOPNOTSUPP) { // those of a threaded group are listed above it
			return nil
		}
		if err != nil {
			return err
		}
		for word := range strings.FieldsSeq(text) {
			if len(list) == limit {
				return filepath.SkipAll
			}
			p, err := l.member(word)
			if err != nil {
				return err
			}
			if p != (Process{}) || word == "0" {
				list = append(list, p)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot see the processes of %s: %w", dir, err)
	}
	return list, nil
}

// member returns the process of a line in cgroup.procs, and none if it has ended.
func (l Leases) member(word string) (Process, error) {
	pid, err := strconv.Atoi(word)
	if err != nil || pid == 0 {
		return Process{}, err
	}
	p, alive, err := l.process(pid)
	if !alive || err != nil {
		return Process{}, err
	}
	return Process{p.pid, p.start}, nil
}
