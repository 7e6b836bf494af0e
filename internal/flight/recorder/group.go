package recorder

import (
	"bytes"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// group is a control group: its directories in the hierarchies that the machine mounts. On
// cgroup v1 each controller has another one.
type group struct{ dirs []string }

// groupOf finds the container's group in /proc/PID/cgroup, by an element of its path.
func (r *Recorder) groupOf(text string, element func(string) bool) (g group, ok bool) {
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, found := strings.Cut(rest, ":")
		parts := strings.Split(path, "/")
		at := slices.IndexFunc(parts, element)
		if !found || at < 0 || slices.Contains(parts, "..") {
			continue
		}
		ok = true
		path = strings.Join(parts[:at+1], "/")
		if controllers == "" {
			g.dirs = append(g.dirs, r.cgroup+path, r.cgroup+"/unified"+path)
			continue
		}
		for _, c := range append(strings.Split(controllers, ","), controllers) {
			if c = strings.TrimPrefix(c, "name="); filepath.IsLocal(c) {
				g.dirs = append(g.dirs, filepath.Join(r.cgroup, c)+path)
			}
		}
	}
	g.dirs = slices.DeleteFunc(g.dirs, func(d string) bool { return !r.Root.Exists(r.Root.Rel(d)) })
	return g, ok
}

// groupDirs returns where the processes of a service may be listed.
func (r *Recorder) groupDirs(service string) []string {
	return []string{filepath.Join(r.cgroup, service), filepath.Join(r.cgroup, "systemd", service),
		filepath.Join(r.cgroup, "unified", service)}
}

// read returns a file of the group from the first hierarchy that has it.
func (g group) read(name string, page []byte) ([]byte, bool) {
	for _, d := range g.dirs {
		if n, err := sysfile.Fill(d+"/"+name, page); err == nil {
			return page[:n], true
		}
	}
	return nil, false
}

// number reads a file with one number. "max" and more than 2^60 are no limit, 0.
func (g group) number(name string, page []byte) (int64, bool) {
	data, ok := g.read(name, page)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(data)), 10, 64)
	if err != nil || n > 1<<60 {
		return 0, string(bytes.TrimSpace(data)) == "max" || err == nil
	}
	return int64(n), true
}

func (g group) memoryLimit(page []byte) int64 {
	for _, name := range []string{"memory.max", "memory.limit_in_bytes"} {
		if n, ok := g.number(name, page); ok {
			return n
		}
	}
	return 0
}

// keyed returns the value of a key in a file with lines "key value".
func keyed(data []byte, key string) (int64, bool) {
	for line := range bytes.Lines(data) {
		name, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if ok && string(name) == key {
			n, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// addTo reads all counters of the group.
func (g group) addTo(s *taskrecord.Sample, page []byte) {
	set := func(c int, v int64, ok bool) {
		if ok {
			s.Values[c] = v
		}
	}
	if data, ok := g.read("cpu.stat", page); ok {
		v, ok := keyed(data, "nr_periods")
		set(taskrecord.CPUPeriods, v, ok)
		v, ok = keyed(data, "nr_throttled")
		set(taskrecord.CPUThrottledPeriods, v, ok)
	}
	v, ok := g.cpu(page)
	set(taskrecord.CPUUsage, v, ok)
	for _, p := range []struct {
		file       string
		some, full int
	}{
		{"cpu.pressure", taskrecord.CPUStall, taskrecord.CPUStallFull},
		{"memory.pressure", taskrecord.MemoryStall, taskrecord.MemoryStallFull},
		{"io.pressure", taskrecord.IOStall, taskrecord.IOStallFull},
	} {
		if data, ok := g.read(p.file, page); ok {
			v, ok := stall(data, "some")
			set(p.some, v, ok)
			v, ok = stall(data, "full")
			set(p.full, v, ok)
		}
	}
	g.addMemory(set, page)
	if data, ok := g.read("io.stat", page); ok {
		set(taskrecord.DiskRead, sumOf(data, "rbytes="), true)
		set(taskrecord.DiskWritten, sumOf(data, "wbytes="), true)
	} else if data, ok := g.read("blkio.throttle.io_service_bytes", page); ok {
		set(taskrecord.DiskRead, sumAfter(data, "Read"), true)
		set(taskrecord.DiskWritten, sumAfter(data, "Write"), true)
	}
}

func (g group) addMemory(set func(c int, v int64, ok bool), page []byte) {
	v, ok := g.memory(page)
	set(taskrecord.MemoryUsed, v, ok)
	peak, ok := g.number("memory.peak", page)
	if !ok {
		peak, ok = g.number("memory.max_usage_in_bytes", page)
	}
	set(taskrecord.MemoryPeak, peak, ok)
	if data, ok := g.read("memory.events.local", page); ok { // v2
		v, ok := keyed(data, "oom")
		set(taskrecord.MemoryLimitHits, v, ok)
	} else {
		v, ok := g.number("memory.failcnt", page)
		// With an equal limit of memory and swap, this limit is hit first.
		swap, _ := g.number("memory.memsw.failcnt", page)
		limit := g.memoryLimit(page)
		if v += swap; v == 0 && limit > 0 && peak >= limit { // newer kernels do not always count
			v = 1
		}
		set(taskrecord.MemoryLimitHits, v, ok)
	}
	data, ok := g.read("memory.events", page)
	if !ok {
		data, ok = g.read("memory.oom_control", page)
	}
	if ok {
		v, ok := keyed(data, "oom_kill")
		set(taskrecord.OOMKills, v, ok)
	}
	if data, ok := g.read("memory.stat", page); ok {
		v, ok := keyed(data, "pgmajfault")
		set(taskrecord.MajorFaults, v, ok)
	}
}

// cpu returns the CPU time in microseconds.
func (g group) cpu(page []byte) (int64, bool) {
	if data, ok := g.read("cpu.stat", page); ok {
		if v, ok := keyed(data, "usage_usec"); ok && !g.v1(page) {
			return v, true
		}
	}
	v, ok := g.number("cpuacct.usage", page)
	return v / 1000, ok
}

// v1 reports whether another hierarchy than v2 counts the CPU time.
func (g group) v1(page []byte) bool {
	_, ok := g.read("cpuacct.usage", page)
	return ok
}

// memory returns the memory in use without the pages of files that the kernel can drop.
func (g group) memory(page []byte) (int64, bool) {
	used, ok := g.number("memory.current", page)
	if !ok {
		if used, ok = g.number("memory.usage_in_bytes", page); !ok {
			return 0, false
		}
	}
	if data, there := g.read("memory.stat", page); there {
		if v, ok := keyed(data, "inactive_file"); ok {
			used = max(0, used-v)
		}
	}
	return used, true
}

// stall returns the microseconds of a line of a pressure file: "some avg10=0.00 ...
// total=123".
func stall(data []byte, kind string) (int64, bool) {
	for line := range bytes.Lines(data) {
		rest, ok := bytes.CutPrefix(line, []byte(kind+" "))
		if _, total, found := bytes.Cut(rest, []byte("total=")); ok && found {
			n, err := strconv.ParseInt(string(bytes.TrimSpace(total)), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// sumOf sums the values of a key in io.stat: "8:0 rbytes=1 wbytes=2 ...".
func sumOf(data []byte, key string) (sum int64) {
	for field := range bytes.FieldsSeq(data) {
		if value, ok := bytes.CutPrefix(field, []byte(key)); ok {
			n, _ := strconv.ParseInt(string(value), 10, 64)
			sum += n
		}
	}
	return sum
}

// sumAfter sums the numbers after a word in blkio's files: "8:0 Read 4096".
func sumAfter(data []byte, word string) (sum int64) {
	for line := range bytes.Lines(data) {
		if f := bytes.Fields(line); len(f) == 3 && string(f[1]) == word {
			n, _ := strconv.ParseInt(string(f[2]), 10, 64)
			sum += n
		}
	}
	return sum
}
