package recorder

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"concourse-ci-machine/internal/gpu/sysfile"
	"concourse-ci-machine/internal/pool/taskrecord"
)

// services follows the processes of Concourse on the worker, by the programs that run in
// the control group of its service. No container is in that group.
type services struct {
	proc   string
	known  map[process]string // with the program, "" for others
	events []taskrecord.Event
	began  bool
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
	now := map[process]string{}
	for field := range strings.FieldsSeq(text) {
		pid, _ := strconv.Atoi(field)
		p, alive := (&Recorder{proc: s.proc}).process(pid)
		if !alive {
			continue
		}
		program, seen := s.known[p]
		if !seen {
			link, _ := os.Readlink(filepath.Join(s.proc, field, "exe"))
			program = strings.TrimSuffix(filepath.Base(link), " (deleted)")
			if of, ok := programs[program]; !ok {
				program = ""
			} else if s.began {
				s.events = append(s.events, taskrecord.Event{Kind: of.began})
			}
		}
		now[p] = program
	}
	for p, program := range s.known {
		if _, there := now[p]; !there && program != "" {
			s.events = append(s.events, taskrecord.Event{Kind: programs[program].ended})
		}
	}
	s.known, s.began = now, true
}

// noteServices adds the changes to the records of all tasks.
func (r *Recorder) noteServices(now time.Time) {
	for _, e := range r.services.events {
		e.At = now
		for _, c := range r.containers {
			if c.task {
				r.note(c, e)
			}
		}
	}
}
