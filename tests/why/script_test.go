package why

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

// judged is a case: a script of a machine, and the kinds that are right. The first one is the
// best, and "unknown" among them leaves the truth open.
type judged struct {
	kind, name string
	right      []verdict.Kind
	steps      []string
}

// readCases reads a file of cases, which are of one kind:
//
//	== name of a case: task unknown
//	run 80s; gpu busy=100 power=42
//	exit 143
//
// A line has one or more steps, see machine.step.
func readCases(t *testing.T, file string) (all []judged) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if head, ok := strings.CutPrefix(line, "== "); ok {
			i := strings.LastIndex(head, ": ")
			require.Positive(t, i, line)
			one := judged{kind: strings.TrimSuffix(filepath.Base(file), ".txt"), name: head[:i]}
			for _, k := range strings.Fields(head[i+1:]) {
				one.right = append(one.right, verdict.Kind(k))
			}
			all = append(all, one)
		} else if line != "" && !strings.HasPrefix(line, "#") {
			last := &all[len(all)-1]
			last.steps = append(last.steps, line)
		}
	}
	return all
}

// play runs the script of a case, and returns the record of its first task.
func (c judged) play(t *testing.T) taskrecord.Record {
	m := newMachine(t)
	for _, line := range c.steps {
		steps := []string{line}
		if !strings.HasPrefix(line, "log ") && !strings.HasPrefix(line, "flood ") {
			steps = strings.Split(line, "; ")
		}
		for _, step := range steps {
			m.step(strings.TrimSpace(step))
		}
	}
	m.run(45 * time.Second)
	f, err := taskrecord.Store{Dir: m.root.Path(taskrecord.DefaultDir)}.Find(m.tasks[0].handle)
	require.NoError(t, err)
	require.False(t, f.Running, "the record has not ended")
	r, err := f.Read()
	require.NoError(t, err)
	return r
}

// step takes one step. A script without "start" begins with a task on GPU 0.
func (m *machine) step(text string) {
	verb, rest, _ := strings.Cut(text, " ")
	if len(m.tasks) == 0 && verb != "start" && !strings.HasPrefix(verb, "gpu") && verb != "machine" {
		m.start(0)
	}
	switch verb {
	case "start": // start, start 0 1: a task on these GPUs
		var gpus []int
		for _, f := range strings.Fields(rest) {
			n, err := strconv.Atoi(f)
			require.NoError(m.t, err)
			gpus = append(gpus, n)
		}
		m.start(gpus...)
	case "run":
		d, err := time.ParseDuration(rest)
		require.NoError(m.t, err, text)
		m.run(d)
	case "task", "neighbour":
		m.values(rest, m.of(verb).set)
	case "client", "others": // client 0=.9: works on GPU 0 for 90 % of the time; others are the neighbour
		c := m.of(verb)
		c.set["scanned"] = 1
		parts := map[string]float64{}
		m.values(rest, parts)
		clear(c.engines)
		for g, part := range parts {
			n, err := strconv.Atoi(g)
			require.NoError(m.t, err, text)
			c.engines[n] = part
		}
		m.scan()
	case "machine":
		m.values(rest, m.set)
	case "gpu", "gpu1":
		m.writeGPU(len(verb)-len("gpu"), rest)
	case "log":
		m.kernel(rest)
	case "flood": // flood 2000 amdgpu ...: so many lines
		times, line, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(times)
		require.NoError(m.t, err, text)
		for range n {
			m.kernel(line)
		}
	case "exit":
		n, err := strconv.Atoi(rest)
		require.NoError(m.t, err, text)
		m.end(m.tasks[0], n)
	case "exits-unseen":
		m.end(m.tasks[0], -1)
	case "resolver": // resolver 10.0.0.1: the task writes its own resolv.conf
		path := fmt.Sprintf("/proc/%d/root/etc/resolv.conf", m.tasks[0].pid)
		m.put(path, "nameserver "+rest+"\n# its own\n")
		require.NoError(m.t, os.Chtimes(m.root.Path(path), time.Time{}, time.Now().Add(time.Second)))
	case "remove":
		m.remove(m.tasks[0])
	case "never-starts":
		m.end(m.tasks[0], -1)
	case "worker-restarts":
		m.serve("containerd")
		m.run(12 * time.Second)
		m.serve("concourse", "containerd")
	case "containerd-restarts":
		m.serve("concourse")
		m.run(12 * time.Second)
		m.serve("concourse", "containerd")
	case "recorder-restarts":
		require.NoError(m.t, m.rec.Close())
		m.record()
	case "reboot":
		m.put("/proc/sys/kernel/random/boot_id", "boot-2\n")
		m.remove(m.tasks[0])
		m.record()
	default:
		m.t.Fatalf("unknown step %q", text)
	}
}

// of returns the task of a step's verb. The neighbour starts with its first step.
func (m *machine) of(verb string) *played {
	if verb == "task" || verb == "client" {
		return m.tasks[0]
	}
	if len(m.tasks) == 1 {
		m.start()
	}
	return m.tasks[1]
}

// values reads "name=value ...", with K, M and G for 1024 and its powers.
func (m *machine) values(text string, to map[string]float64) {
	for _, f := range strings.Fields(text) {
		name, value, _ := strings.Cut(f, "=")
		factor := 1.
		for unit, by := range map[string]float64{"K": 1 << 10, "M": 1 << 20, "G": 1 << 30} {
			if short, ok := strings.CutSuffix(value, unit); ok {
				value, factor = short, by
			}
		}
		v, err := strconv.ParseFloat(value, 64)
		require.NoError(m.t, err, text)
		to[name] = v * factor
	}
}

// writeGPU writes values of a GPU: busy, membusy, power (W), clock (MHz), temp (junction),
// hot=1 for its thermal limit, vram, ue, ce (sums), pages (bad ones), and gone=1 for a GPU that left the bus.
func (m *machine) writeGPU(gpu int, text string) {
	values := map[string]float64{}
	m.values(text, values)
	sensor := func(file string) string {
		dirs, err := filepath.Glob(m.root.Path(m.gpuFile(gpu, "hwmon/hwmon*")))
		require.NoError(m.t, err)
		require.Len(m.t, dirs, 1)
		return m.root.Rel(dirs[0]) + "/" + file
	}
	for name, v := range values {
		switch name {
		case "busy":
			m.put(m.gpuFile(gpu, "gpu_busy_percent"), fmt.Sprintf("%.0f\n", v))
		case "membusy":
			m.put(m.gpuFile(gpu, "mem_busy_percent"), fmt.Sprintf("%.0f\n", v))
		case "power":
			m.put(sensor("power1_average"), fmt.Sprintf("%.0f\n", v*1e6))
		case "clock":
			m.patchTable(gpu, func(table []byte) { binary.LittleEndian.PutUint16(table[54:], uint16(v)) })
		case "hot":
			m.patchTable(gpu, func(table []byte) { table[116] = byte(v) << 4 })
		case "temp":
			m.put(sensor("temp2_input"), fmt.Sprintf("%.0f\n", v*1e3))
		case "vram":
			m.put(m.gpuFile(gpu, "mem_info_vram_used"), fmt.Sprintf("%.0f\n", v))
		case "ue", "ce":
			ue, ce := values["ue"], values["ce"]
			m.put(m.gpuFile(gpu, "ras/umc_err_count"), fmt.Sprintf("ue: %.0f\nce: %.0f\n", ue, ce))
		case "pages":
			var list string
			for i := range int(v) {
				list += fmt.Sprintf("0x%08x : 0x00001000 : R\n", 0x1000*(i+1))
			}
			m.put(m.gpuFile(gpu, "ras/gpu_vram_bad_pages"), list)
		case "gone":
			m.removeAll(m.gpuFile(gpu, ""))
		default:
			m.t.Fatalf("unknown value %q", name)
		}
	}
}

// patchTable changes the table gpu_metrics v1.3: the current clock at 54, and the limits that
// slow the GPU down at 112, of which bit 36 is the hotspot.
func (m *machine) patchTable(gpu int, change func(table []byte)) {
	path := m.gpuFile(gpu, "gpu_metrics")
	table, err := m.root.ReadFile(path)
	require.NoError(m.t, err)
	change(table)
	m.put(path, string(table))
}

// kernel adds a line of the kernel. {gpu}, {gpu1}, {port}, {pid} and {group} are of the first
// task and its GPU.
func (m *machine) kernel(text string) {
	c := m.tasks[0]
	text = strings.NewReplacer("{gpu}", cards[0].pci, "{gpu1}", cards[1].pci, "{port}", cards[0].port,
		"{pid}", fmt.Sprint(c.own), "{group}", "/garden/"+c.handle).Replace(text)
	m.log = append(m.log, fmt.Sprintf("4,1,%d,-;%s\n", m.now.Sub(booted).Microseconds(), text))
}
