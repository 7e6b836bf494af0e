package recorder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/fourdollars/concourse-ci-machine/internal/base/procfile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// taskPID is the file of a bundle with the process of the task. Concourse names that
// process "task", and containerd's shim names the file after it. The shim removes it once
// Concourse has the exit status.
const taskPID = "task.pid"

const (
	maxContainers = 1024
	maxPIDs       = 10_000
)

// process identifies a process for good.
type process struct {
	pid   int
	start uint64
}

// container is one container of Concourse, or the holder of GPUs: a container of another engine,
// or a run with its control group.
type container struct {
	holder
	bundle         string // of Concourse's
	init           process
	group          group
	recorded       bool // not one of a get, put or check
	checked        bool // recorded is known
	node           map[string]bool
	own            process // of the task; zero until it is seen
	reading        chan []string
	servers        []string // see givenServers
	ended          time.Time
	ending         taskrecord.Ending
	exit           *int
	answered       bool      // exit is known, or it is known that it cannot be
	shown          bool      // the report has the verdict before its end
	released       bool      // the lease of its GPUs has ended
	asked          time.Time // for the exit status
	began, flushed time.Time

	writer  *taskrecord.Writer
	head    taskrecord.Head
	record  taskrecord.Record // samples that are not written yet, and the last of each
	pids    map[int]time.Time // when a process was seen last
	members []int             // processes now
	count   int64             // of them
	spent   int64             // CPU time in microseconds of a run without a control group
	usage   usage
	others  usage // growth of the neighbours since the begin
	before  map[string]usage
	copies  int // of dumps
	repeats map[taskrecord.EventKind]int
	end     taskrecord.End
	clocks  *taskrecord.Clocks // of a run, nil if they were not fixed
	late    int                // signs after the end
	hanging map[string]bool
	counted bool // the counters of its GPUs were read after its end
	done    bool
	// unstarted is set if no process of the task was seen in a record that ended, or in a
	// container that has none. The task can still start.
	unstarted bool
	uncounted *verdict.Verdict // of an ended task, as long as its verdict can change
	resumed   bool

	evidence taskrecord.Evidence
	unsaved  bool // evidence is newer than the record
}

// find adds new containers and ends those that were removed.
func (r *Recorder) find(now time.Time) error {
	entries, err := os.ReadDir(r.Root.Path(r.Bundles))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot find containers: %w", err)
	}
	there := map[string]bool{}
	for _, e := range entries {
		handle := e.Name()
		if !wellknown.IsHandle(handle) || len(there) == maxContainers {
			continue
		}
		there[handle] = true
		if r.containers[handle] == nil {
			r.containers[handle] = r.newContainer(holder{kind: lease.Task, handle: handle}, now)
		}
	}
	failed := errors.Join(r.findHolders(there, now), r.findUsers(there, now))
	for handle, c := range r.containers {
		if !there[handle] && c.kind != lease.Task {
			if c.released = true; c.done || !c.checked {
				delete(r.containers, handle)
			}
			continue
		}
		if !there[handle] {
			if c.ended.IsZero() {
				c.ended, c.ending = now, taskrecord.Removed
			}
			failed = errors.Join(failed, r.end(c))
			if c.unstarted {
				r.count(c)
			}
			delete(r.containers, handle)
			continue
		}
		if c.checked {
			continue
		}
		if c.kind == lease.Task {
			failed = errors.Join(failed, r.identify(c))
		} else {
			failed = errors.Join(failed, r.identifyHolder(c))
		}
	}
	return failed
}

func (r *Recorder) newContainer(h holder, now time.Time) *container {
	return &container{holder: h, began: now, pids: map[int]time.Time{},
		repeats: map[taskrecord.EventKind]int{},
		bundle:  r.Root.Path(filepath.Join(r.Bundles, h.handle)), hanging: map[string]bool{}}
}

// identify finds the container's first process and control group, and begins the record of
// a task.
func (r *Recorder) identify(c *container) error {
	pid := readPID(filepath.Join(c.bundle, "init.pid"))
	init, alive := r.process(pid)
	if !alive {
		return nil // it is being made
	}
	text, err := r.text(pid, "cgroup")
	if err != nil {
		return nil
	}
	mounts, err := r.text(pid, "mountinfo")
	if err != nil {
		return nil
	}
	group, ok := r.groupOf(text, c.inGroup)
	if !ok {
		return nil // another process has its number
	}
	c.checked, c.init, c.group = true, init, group
	c.recorded, c.node = readMounts(mounts)
	if !c.recorded {
		return nil
	}
	r.readServers(c)
	return r.begin(c)
}

// old is the age at which a container without a task's process is not new: its task ended
// before this recorder began.
const old = 10 * time.Second

// begin begins or continues the record of a task of Concourse.
func (r *Recorder) begin(c *container) error {
	first, late := c.init, c.own.pid != 0
	if late {
		first = c.own
	}
	if age, ok := r.age(first); ok {
		c.began = c.began.Add(-min(age, c.began.Sub(time.Unix(0, 0))))
		_, running := r.process(readPID(filepath.Join(c.bundle, taskPID)))
		c.unstarted = age > old && !late && !running && !r.Store.Open(c.handle)
	}
	if r.Store.Ended(c.handle) {
		return r.readEnded(c)
	}
	if c.done = c.unstarted; c.done {
		return nil
	}
	return r.beginRecord(c)
}

// beginRecord begins or continues a record.
func (r *Recorder) beginRecord(c *container) (err error) {
	c.record.GPUs = map[string][]taskrecord.Sample{}
	c.head = taskrecord.Head{Handle: c.handle, Kind: c.kind, Title: c.title, Engine: c.engine, Boot: r.boot,
		Started: c.began.UTC(), CPUs: r.machine.count(r), Memory: c.group.memoryLimit(r.page), GPUs: r.gpus.of(c)}
	c.writer, err = r.Store.Begin(c.head)
	if errors.Is(err, fs.ErrExist) {
		var before taskrecord.Record
		if c.writer, before, err = r.Store.Resume(c.handle); err == nil {
			c.resume(before)
			err = c.event(taskrecord.Event{At: r.Now().UTC(), Kind: taskrecord.Resumed})
		}
	}
	if err != nil {
		c.done = true
		return err
	}
	if c.ended.IsZero() {
		r.sample(c, r.Now().UTC())
		if file := c.exitFile(); file != "" {
			return r.exits.await(file)
		}
	}
	return nil
}

// age returns the time since a process began.
func (r *Recorder) age(p process) (time.Duration, bool) {
	up, ok := r.uptime()
	const ticks = 100 // USER_HZ
	began := time.Duration(float64(p.start) / ticks * float64(time.Second))
	return max(0, up-began), ok
}

// uptime returns the time since the machine started.
func (r *Recorder) uptime() (time.Duration, bool) {
	text, err := r.Root.ReadText("/proc/uptime")
	up, _, _ := strings.Cut(text, " ")
	seconds, failed := strconv.ParseFloat(up, 64)
	return time.Duration(seconds * float64(time.Second)), err == nil && failed == nil
}

// lookAt reads one task, and ends it when it is due.
func (r *Recorder) lookAt(ctx context.Context, c *container, now time.Time, due bool) (err error) {
	if c.unstarted && c.done {
		return r.startLate(c, now)
	}
	if !c.recorded || c.done {
		return nil
	}
	r.addPIDs(c)
	if c.ended.IsZero() {
		r.lookForEnd(ctx, c, now)
		if due || !c.ended.IsZero() {
			if !c.ended.IsZero() { // the reading before is older
				r.machine.readDisk(r)
			}
			r.sample(c, now)
		}
		if due && len(c.head.GPUs) == 0 && now.Sub(c.began) < time.Minute {
			err = c.setGPUs(r.gpus.of(c))
		}
	}
	if !c.ended.IsZero() && c.exit == nil && now.Sub(c.asked).Abs() >= r.Every/5 {
		c.asked = now
		r.readExit(ctx, c)
	}
	if !c.ended.IsZero() && c.kind == lease.Run && c.answered && !c.shown {
		err = errors.Join(err, r.show(c))
	}
	waited := now.Sub(c.ended).Abs() // also of a clock that was set back
	complete := c.answered && waited >= settle && !r.awaitsFaults(c) || waited >= exitWait || c.unstarted
	if !c.ended.IsZero() && complete {
		return errors.Join(err, r.end(c))
	}
	if now.Sub(c.flushed).Abs() >= flushEvery {
		c.flushed = now
		err = errors.Join(err, c.flush())
	}
	return err
}

// addPIDs notes the processes of the container, which the kernel's lines name. A number stays
// the container's for a time after the end of its process: the kernel's lines may come so late.
// Then another process has the number.
func (r *Recorder) addPIDs(c *container) {
	now := r.Now()
	c.members = c.members[:0]
	if data, ok := c.group.read("cgroup.procs", r.page); ok {
		for field := range bytes.FieldsSeq(data) {
			if n, err := strconv.Atoi(string(field)); err == nil && n > 0 {
				c.members = append(c.members, n)
			}
		}
	} else if c.kind == lease.Task {
		return
	}
	if len(c.members) == 0 && c.kind != lease.Task { // Podman's are in a group below
		c.members = r.tree(c.members, c.init)
	}
	c.count = int64(len(c.members))
	for _, n := range c.members {
		if _, known := c.pids[n]; known || len(c.pids) < maxPIDs {
			c.pids[n] = now
		}
	}
	maps.DeleteFunc(c.pids, func(_ int, seen time.Time) bool { return now.Sub(seen).Abs() > settle })
}

// readMounts reports whether mounts are those of a task, and the DRM nodes among them.
// Concourse mounts the folder of a task at /tmp/build and eight hex digits. Containers of
// other steps have /tmp/build/get, /tmp/build/put or none.
func readMounts(text string) (task bool, nodes map[string]bool) {
	nodes = map[string]bool{}
	mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(text), nil)
	if err != nil {
		return false, nodes
	}
	for _, m := range mounts {
		if rest, ok := strings.CutPrefix(m.Mountpoint, "/tmp/build/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			_, err := strconv.ParseUint(name, 16, 32)
			task = task || len(name) == 8 && err == nil
		}
		if strings.HasPrefix(m.Mountpoint, "/dev/dri/renderD") {
			nodes[m.Mountpoint] = true
		}
	}
	return task, nodes
}

func readPID(path string) int {
	data, err := sysfile.ReadAll(path, 64)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || n < 1 {
		return 0
	}
	return n
}

// process returns the process with this number. It is not alive as a zombie.
func (r *Recorder) process(pid int) (process, bool) {
	if pid <= 0 {
		return process{}, false
	}
	text, err := r.text(pid, "stat")
	if err != nil {
		return process{}, false
	}
	stat, err := procfile.ParseStat(text)
	return process{pid, stat.Start}, err == nil && stat.Alive
}

func (r *Recorder) text(pid int, name string) (string, error) {
	data, err := sysfile.ReadAll(filepath.Join(r.proc, strconv.Itoa(pid), name), maxPage)
	return string(data), err
}
