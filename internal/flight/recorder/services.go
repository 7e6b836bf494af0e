package recorder

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// services follows the processes of Concourse on the worker, by the programs that run in
// the control group of its service. No container is in that group.
type services struct {
	proc   string
	known  map[process]program
	events []taskrecord.Event
	began  bool
}

// program is the program of a process.
type program struct {
	name string // one of programs, or ""
	sure bool   // seen twice: between fork and exec a child has the program of its parent
	late bool   // it began after the recorder
}

var programs = map[string]struct{ began, ended taskrecord.EventKind }{
	"concourse":  {taskrecord.WorkerBegan, taskrecord.WorkerEnded},
	"containerd": {taskrecord.DaemonBegan, taskrecord.DaemonEnded},
}

// look reads the group's processes and compares them with the last look.
func (s *services) look(dirs []string) {
	s.events = s.events[:0]
	text, found := "", false
	for _, d := range dirs {
		if data, err := sysfile.ReadAll(filepath.Join(d, "cgroup.procs"), 1<<16); err == nil {
			text, found = string(data), true
			break
		}
	}
	if !found && !s.began {
		return // not a worker, or not under systemd
	}
	now := map[process]program{}
	for field := range strings.FieldsSeq(text) {
		pid, _ := strconv.Atoi(field)
		p, alive := (&Recorder{proc: s.proc}).process(pid)
		if !alive {
			continue
		}
		one, seen := s.known[p]
		if !seen {
			one.late = s.began
		}
		if !one.sure {
			one.name, one.sure = s.nameOf(field), seen
			if one.sure && one.late && one.name != "" {
				s.events = append(s.events, taskrecord.Event{Kind: programs[one.name].began})
			}
		}
		now[p] = one
	}
	for p, one := range s.known {
		if _, there := now[p]; !there && one.sure && one.name != "" {
			s.events = append(s.events, taskrecord.Event{Kind: programs[one.name].ended})
		}
	}
	s.known, s.began = now, true
}

// nameOf returns the name of a process's program, or "" if it is not one of programs.
func (s *services) nameOf(pid string) string {
	link, _ := os.Readlink(filepath.Join(s.proc, pid, "exe"))
	name := strings.TrimSuffix(filepath.Base(link), " (deleted)")
	if _, ok := programs[name]; !ok {
		return ""
	}
	return name
}

// noteServices adds the changes to the records of all tasks.
func (r *Recorder) noteServices(now time.Time) {
	for _, e := range r.services.events {
		e.At = now
		for _, c := range r.containers {
			if c.recorded && c.kind == lease.Task {
				r.note(c, e)
			}
		}
	}
}
