package recorder

import (
	"bytes"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// machine holds the readings that all tasks share.
type machine struct {
	sample taskrecord.Sample
	cores  int
}

// tick is a jiffy of /proc/stat in microseconds (USER_HZ).
const tick = 10_000

// count returns the number of CPUs.
func (m *machine) count(r *Recorder) int {
	if m.cores == 0 {
		if data, ok := r.file("stat"); ok {
			m.cores = bytes.Count(data, []byte("\ncpu"))
		}
	}
	return m.cores
}

// file reads a file of /proc into the page.
func (r *Recorder) file(name string) ([]byte, bool) {
	n, err := sysfile.Fill(filepath.Join(r.proc, name), r.page)
	return r.page[:max(n, 0)], err == nil
}

// read reads the machine, and the containers for the neighbours of each.
func (m *machine) read(r *Recorder) {
	s := taskrecord.NewSample(r.Now(), taskrecord.NumCounters)
	for _, p := range []struct {
		name, kind string
		counter    int
	}{
		{"pressure/cpu", "some", taskrecord.MachineCPUStall},
		{"pressure/memory", "full", taskrecord.MachineMemoryStall},
		{"pressure/io", "full", taskrecord.MachineIOStall},
	} {
		if data, ok := r.file(p.name); ok {
			if v, ok := stall(data, p.kind); ok {
				s.Values[p.counter] = v
			}
		}
	}
	if data, ok := r.file("meminfo"); ok {
		s.Values[taskrecord.MachineMemory] = kilobytes(data, "MemTotal:")
		s.Values[taskrecord.MachineMemoryFree] = kilobytes(data, "MemAvailable:")
	}
	if data, ok := r.file("stat"); ok {
		if v, ok := busy(data); ok {
			s.Values[taskrecord.MachineCPUBusy] = v * tick
		}
	}
	if n, ok := r.webConnections(); ok {
		s.Values[taskrecord.WebConnections] = n
	}
	m.sample = s
	m.readDisk(r)
	for _, c := range r.containers {
		if c.checked {
			c.usage = c.group.usage(r.page)
		}
	}
}

// readDisk reads the space on the disk of the volumes. It is also read when a task ends, because
// a task that fills the disk fails at once.
func (m *machine) readDisk(r *Recorder) {
	var fs unix.Statfs_t
	if r.Volumes == "" || len(m.sample.Values) == 0 || r.Disk(r.Root.Path(r.Volumes), &fs) != nil {
		return
	}
	m.sample.Values[taskrecord.DiskFree] = int64(fs.Bavail) * fs.Bsize
	m.sample.Values[taskrecord.DiskSize] = int64(fs.Blocks) * fs.Bsize
	if fs.Files > 0 {
		m.sample.Values[taskrecord.InodesFree] = int64(fs.Ffree)
	}
}

// kilobytes returns a line of /proc/meminfo in bytes.
func kilobytes(data []byte, key string) int64 {
	for line := range bytes.Lines(data) {
		if f := bytes.Fields(line); len(f) >= 2 && string(f[0]) == key {
			if n, err := strconv.ParseInt(string(f[1]), 10, 64); err == nil {
				return n << 10
			}
		}
	}
	return taskrecord.Missing
}

// busy returns the jiffies of all CPUs with work, from the first line of /proc/stat (proc_stat(5)).
func busy(data []byte) (sum int64, ok bool) {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	fields := bytes.Fields(line)
	const idle, wait, steal = 4, 5, 8
	for i := 1; i < len(fields) && i <= steal; i++ {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0, false
		}
		if i != idle && i != wait {
			sum += n
		}
	}
	return sum, len(fields) > wait
}

// usage holds what neighbours of a container see.
type usage struct{ cpu, memory, io, written int64 }

func (g group) usage(page []byte) (u usage) {
	u.cpu, _ = g.cpu(page)
	u.memory, _ = g.memory(page)
	if data, ok := g.read("io.stat", page); ok {
		u.written = sumOf(data, "wbytes=")
		u.io = sumOf(data, "rbytes=") + u.written
	} else if data, ok := g.read("blkio.throttle.io_service_bytes", page); ok {
		u.written = sumAfter(data, "Write")
		u.io = sumAfter(data, "Read") + u.written
	}
	return u
}

// addNeighbours adds the use of the other containers. A sum of counters falls when a
// container is removed, so the growth of each is added to a sum that never falls.
func (r *Recorder) addNeighbours(c *container, s *taskrecord.Sample) {
	var n, memory, most int64
	for _, o := range r.containers {
		if o == c || !o.checked {
			continue
		}
		n++
		memory, most = memory+o.usage.memory, max(most, o.usage.memory)
		if was, known := c.before[o.handle]; known {
			c.others.cpu += max(0, o.usage.cpu-was.cpu)
			c.others.io += max(0, o.usage.io-was.io)
			c.others.written += max(0, o.usage.written-was.written)
		}
		if c.before == nil {
			c.before = map[string]usage{}
		}
		c.before[o.handle] = o.usage
	}
	s.Values[taskrecord.Neighbours], s.Values[taskrecord.NeighboursMemory] = n, memory
	s.Values[taskrecord.NeighbourMemory] = most
	s.Values[taskrecord.NeighboursCPU], s.Values[taskrecord.NeighboursIO] = c.others.cpu, c.others.io
	s.Values[taskrecord.NeighboursWritten] = c.others.written
}

// sample reads a task.
func (r *Recorder) sample(c *container, now time.Time) {
	s := taskrecord.NewSample(now, taskrecord.NumCounters)
	if r.machine.sample.Values == nil {
		r.machine.read(r)
	}
	copy(s.Values, r.machine.sample.Values)
	c.group.addTo(&s, r.page)
	r.addProcesses(c, &s)
	if c.kind != lease.Task {
		s.Values[taskrecord.WebConnections] = taskrecord.Missing
	}
	if !r.sharesNetwork(c) {
		r.addNetwork(c, &s)
	}
	r.addNeighbours(c, &s)
	s.Values[taskrecord.Processes] = c.count
	if _, known := s.Get(taskrecord.CPUUsage); !known && !c.ended.IsZero() {
		return // its group is removed
	}
	c.record.Machine = append(c.record.Machine, s)
}
