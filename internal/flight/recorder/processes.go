package recorder

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// maxTree bounds the processes that are read one by one.
const maxTree = 512

// tree appends a process and its descendants. It is for a run without a control group.
func (r *Recorder) tree(all []int, of process) []int {
	if p, alive := r.process(of.pid); !alive || p != of {
		return all
	}
	all = append(all, of.pid)
	for i := 0; i < len(all) && len(all) < maxTree; i++ {
		threads, _ := os.ReadDir(filepath.Join(r.proc, strconv.Itoa(all[i]), "task"))
		for _, t := range threads {
			text, _ := r.text(all[i], filepath.Join("task", t.Name(), "children"))
			for field := range strings.FieldsSeq(text) {
				if n, err := strconv.Atoi(field); err == nil && len(all) < maxTree {
					all = append(all, n)
				}
			}
		}
	}
	return all
}

// addProcesses adds the memory and the CPU time of a run's processes, if its control group does
// not count them: below a service's group no controller is enabled.
func (r *Recorder) addProcesses(c *container, s *taskrecord.Sample) {
	_, memory := s.Get(taskrecord.MemoryUsed)
	_, cpu := s.Get(taskrecord.CPUUsage)
	if c.kind != lease.Run || memory && cpu || len(c.members) == 0 {
		return
	}
	var pages, ticks int64
	for _, pid := range c.members[:min(len(c.members), maxTree)] {
		text, err := r.text(pid, "stat")
		if err != nil {
			continue
		}
		m, t := usageOf(text)
		pages, ticks = pages+m, ticks+t
	}
	if !memory {
		s.Values[taskrecord.MemoryUsed] = pages * int64(os.Getpagesize())
	}
	if c.spent = max(c.spent, ticks*tick); !cpu { // the time of a process without a parent is lost
		s.Values[taskrecord.CPUUsage] = c.spent
	}
}

// usageOf returns the resident pages of a process, and the ticks of it and of its children that ended, from
// /proc/PID/stat (proc_pid_stat(5)).
func usageOf(text string) (pages, ticks int64) {
	const state, utime, cstime, rss = 3, 14, 17, 24
	at := state
	for field := range strings.FieldsSeq(text[strings.LastIndexByte(text, ')')+1:]) {
		n, err := strconv.ParseInt(field, 10, 64)
		switch {
		case err != nil:
		case at >= utime && at <= cstime:
			ticks += n
		case at == rss:
			pages = n
		}
		at++
	}
	return pages, ticks
}
