package recorder

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/kernellog"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// A line belongs to a task by the device, the control group or the process that the kernel
// names at a place that no task can write. A process's name has at most 15 bytes, so the
// patterns look for the process after at most so many, and take the last match.
var (
	crashed = regexp.MustCompile(`^(?:traps: )?.{1,15}\[(\d+)\](?:: segfault at |: general protection|` +
		` general protection| trap )`)
	killed = regexp.MustCompile(`^(?:Memory cgroup out of memory|Out of memory): Killed process (\d+) \(`)
	// Bit 61 of the status that ends a machine check (UC) is 0 if the processor corrected it.
	broken = regexp.MustCompile(`^(?:mce: \[Hardware Error\]: CPU \d+: Machine Check(?: Exception)?: [0-9a-f]+ ` +
		`Bank \d+: [2367abef][0-9a-f]{15}|\[Hardware Error\]: .*Uncorrected.*|` +
		`EDAC MC\d+: \d+ UE \w.* on .*|critical (?:medium|target) error, dev .*)`)
)

// finding is the meaning of a line that is about no GPU.
type finding struct {
	kind    taskrecord.EventKind // "" for none
	pid     int
	group   string // path of the control group of a killed process
	detail  string // the scope of an OOM kill, or the part of the machine
	machine bool   // it concerns all tasks
	killed  bool   // to free memory
}

// parse returns the meaning of a line of the kernel that is about no GPU.
func parse(m kernellog.Message) (f finding) {
	text := m.Text
	if found := crashed.FindStringSubmatch(text); found != nil {
		f.kind = taskrecord.Crash
		f.pid, _ = strconv.Atoi(found[1])
		return f
	}
	if found := killed.FindStringSubmatch(text); found != nil {
		f.pid, _ = strconv.Atoi(found[1])
		f.killed = true
		return f
	}
	if rest, ok := strings.CutPrefix(text, "oom-kill:constraint="); ok {
		return parseOOM(rest)
	}
	if m.Device == "" && broken.MatchString(text) {
		f.kind, f.machine, f.detail = taskrecord.HardwareFail, true, partOf(text)
	}
	return f
}

// partOf returns the part that a line of broken is about. All users can read an event's
// detail, and only root the kernel's lines.
func partOf(text string) string {
	switch {
	case strings.HasPrefix(text, "EDAC"):
		return "an uncorrected error of memory"
	case strings.HasPrefix(text, "critical"):
		return "an error of a disk"
	}
	return "an uncorrected machine check"
}

// parseOOM reads "CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/a,
// task_memcg=/a/b,task=x,pid=7,uid=0" (dump_oom_summary and mem_cgroup_print_oom_context). Everything
// before the name of the process is the kernel's.
func parseOOM(text string) (f finding) {
	before, _, ok := strings.Cut(text, ",task=")
	_, group, found := strings.Cut(before, "task_memcg=")
	if !ok || !found {
		return f
	}
	f.kind, f.group, f.detail = taskrecord.OOMKill, group, taskrecord.ScopeMachine
	if _, of, memcg := strings.Cut(before, "oom_memcg="); memcg {
		of, _, _ = strings.Cut(of, ",")
		f.detail = taskrecord.ScopeParent
		if of == group {
			f.detail = taskrecord.ScopeTask
		}
	}
	return f
}

// of reports whether a finding belongs to a container, by its control group or the container
// of its process.
func (f finding) of(c, owner *container) bool {
	if f.group != "" {
		return slices.ContainsFunc(strings.Split(f.group, "/"), c.inGroup)
	}
	return f.machine || c == owner
}

// addOOM makes an OOM kill of a line about a killed process of a run. The line before has a
// group above the run's, because the run's own group has no limit.
func (r *Recorder) addOOM(f finding, owner *container) finding {
	if f.kind == taskrecord.OOMKill {
		r.oom = f
	}
	if f.killed && owner != nil && owner.kind == lease.Run && !r.oom.of(owner, nil) {
		f.kind, f.detail = taskrecord.OOMKill, r.oom.detail
		if f.detail == taskrecord.ScopeTask {
			f.detail = taskrecord.ScopeParent
		}
	}
	return f
}

// owner returns the container that had a process last, or nil.
func (r *Recorder) owner(pid int) (owner *container) {
	var last time.Time
	for _, c := range r.containers {
		if seen, had := c.pids[pid]; had && (owner == nil || seen.After(last)) {
			owner, last = c, seen
		}
	}
	return owner
}

// readKernel adds the new lines of the kernel to the records that they belong to.
func (r *Recorder) readKernel() {
	if r.kernel == nil {
		return
	}
	for {
		m, ok := r.kernel.Next()
		if !ok {
			return
		}
		if err := r.readLine(m); err != nil {
			r.Log("%v", err)
		}
	}
}

func (c *container) addLine(l taskrecord.Line) {
	dropped, e := false, &c.evidence
	e.Kernel, dropped = kernellog.Bounded(e.Kernel, l, func(l taskrecord.Line) string { return l.Text })
	if dropped {
		e.Lost++
	}
	c.unsaved = true
}

// gpuOf returns the name of the task's GPU at a PCI address, or "".
func (c *container) gpuOf(address string) string {
	for _, g := range c.head.GPUs {
		if address != "" && pci.OfSlot(g.Name) == address {
			return g.Name
		}
	}
	return ""
}

// note adds an event to a record, which is then written at this look: gpukit why reads it while
// a run goes on.
func (r *Recorder) note(c *container, e taskrecord.Event) {
	c.flushed = time.Time{}
	if err := c.event(e); err != nil {
		r.Log("%v", err)
	}
}
