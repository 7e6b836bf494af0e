// The tests of this package inject causes of failed builds and check the verdict. This file
// has a machine of files, on which the recorder looks with a clock of the test: each cause is
// a list of changes to these files.
package recorder_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/kernellog"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const (
	gpu0, gpu1 = "0000:23:00.0", "0000:43:00.0"
	handle     = "0badcafe-0000-4000-8000-000000000001"
	neighbour  = "0badcafe-0000-4000-8000-000000000002"
	gib        = 1 << 30

	usageReport = "/run/usage.json"
)

// start is the time of the clock at the begin. The machine booted an hour before.
var start = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// kernel plays the kernel's log: one record for each Read.
type kernel struct{ records []string }

func (k *kernel) Read(p []byte) (int, error) {
	if len(k.records) == 0 {
		return 0, io.EOF
	}
	n := copy(p, k.records[0])
	k.records = k.records[1:]
	return n, nil
}

// world is a machine of files.
type world struct {
	t      *testing.T
	root   host.Root
	now    time.Time
	log    kernel
	rec    *recorder.Recorder
	exits  map[string]int // of ended tasks, as the worker has them
	worker *httptest.Server
	tasks  map[string]*task
	busy   float64 // CPU time of the rest of the machine, in seconds
	rest   float64 // CPUs that the rest of the machine uses
	web    bool    // the worker has a connection to a web
}

// task holds the counters of a container. The rates are for a second.
type task struct {
	*world
	handle      string
	pid, own    int
	cpu         float64 // CPUs
	memory      float64 // bytes
	limit       float64
	stall       map[string]float64 // shares of the time of "wait" (for a CPU), "memory" and "io"
	read, wrote float64
	in, out     float64
	sums        map[string]float64
	fixed       map[string]float64 // further values: oom, oom_kill, tcp_open, dns
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, root: hosttest.Host(t, "mi210x4"), now: start, exits: map[string]int{}, tasks: map[string]*task{},
		rest: .1, web: true}
	w.worker = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		status, ok := w.exits[strings.Split(req.URL.Path, "/")[2]]
		if !ok {
			http.NotFound(rw, req)
			return
		}
		_ = json.NewEncoder(rw).Encode(map[string]string{"value": fmt.Sprint(status)})
	}))
	t.Cleanup(w.worker.Close)
	w.boot("boot-1")
	w.put("/sys/fs/cgroup/system.slice/concourse-worker.service/cgroup.procs", "100\n101\n")
	w.program(100, "concourse")
	w.program(101, "containerd")
	w.start()
	return w
}

func (w *world) put(path, text string) {
	path = w.root.Path(path)
	if os.WriteFile(path, []byte(text), 0o644) != nil { // its folder is missing
		require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(w.t, os.WriteFile(path, []byte(text), 0o644))
	}
}

func (w *world) boot(id string) { w.put("/proc/sys/kernel/random/boot_id", id+"\n") }

// process adds a process that began now.
func (w *world) process(pid int) {
	w.put(fmt.Sprintf("/proc/%d/stat", pid), fmt.Sprintf("%d (x) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 %d 1 1\n",
		pid, w.uptime()*100))
}

func (w *world) program(pid int, name string) {
	w.process(pid)
	hosttest.Link(w.t, w.root, fmt.Sprintf("/proc/%d/exe", pid), "/opt/concourse/bin/"+name)
}

func (w *world) kill(pid int) {
	require.NoError(w.t, os.RemoveAll(w.root.Path(fmt.Sprintf("/proc/%d", pid))))
}

func (w *world) uptime() int { return 3600 + int(w.now.Sub(start).Seconds()) }

// start starts a recorder.
func (w *world) start() {
	w.write()
	var err error
	w.rec, err = recorder.New(recorder.Options{Root: w.root, Worker: w.worker.URL, Report: verdict.ReportPath, Usage: usageReport,
		Limits: taskrecord.Limits{Bytes: 64 << 20, Age: 24 * time.Hour, FailedAge: 96 * time.Hour},
		Now:    func() time.Time { return w.now }, Kernel: kernellog.Of(&w.log, start.Add(-time.Hour)),
		Log:  func(format string, args ...any) { w.t.Logf(format, args...) },
		Copy: func(work func()) { work() }})
	require.NoError(w.t, err)
}

// restart stops the recorder and starts another one.
func (w *world) restart() {
	require.NoError(w.t, w.rec.Close())
	w.start()
}

// forget removes all records and the report.
func (w *world) forget() {
	require.NoError(w.t, os.RemoveAll(w.root.Path(taskrecord.DefaultDir)))
	require.NoError(w.t, w.root.Remove(verdict.ReportPath))
}

// counts returns the ended tasks by verdict that the recorder has counted.
func (w *world) counts() map[string]uint64 {
	report, err := verdict.ReportFile(verdict.ReportPath).Read(w.root)
	require.NoError(w.t, err)
	maps.DeleteFunc(report.Counts, func(_ string, n uint64) bool { return n == 0 })
	return report.Counts
}

// say adds a line of the kernel.
func (w *world) say(text string) {
	w.log.records = append(w.log.records, fmt.Sprintf("4,1,%d,-;%s\n", w.now.Sub(start.Add(-time.Hour)).Microseconds(), text))
}

// task starts a container with its task's process.
func (w *world) task(handle string, gpus ...string) *task {
	n := len(w.tasks)
	c := &task{world: w, handle: handle, pid: 1000 + 100*n, own: 1001 + 100*n, cpu: 1, memory: gib, stall: map[string]float64{},
		sums: map[string]float64{}, fixed: map[string]float64{}}
	w.tasks[handle] = c
	bundle := recorder.DefaultBundles + "/" + handle
	w.process(c.pid)
	w.process(c.own)
	w.put(fmt.Sprintf("/proc/%d/cgroup", c.pid), "0::/garden/"+handle+"\n")
	mounts := "36 35 0:31 / /proc rw - proc proc rw\n37 35 0:31 /x /tmp/build/1c633350 rw - ext4 x rw\n"
	for _, g := range gpus {
		node := map[string]int{gpu0: 128, gpu1: 129}[g]
		mounts += fmt.Sprintf("38 35 0:5 /x /dev/dri/renderD%d rw - devtmpfs x rw\n", node)
	}
	w.put(fmt.Sprintf("/proc/%d/mountinfo", c.pid), mounts)
	w.write()
	w.put(bundle+"/init.pid", fmt.Sprint(c.pid))
	w.put(bundle+"/task.pid", fmt.Sprint(c.own))
	return c
}

// run lets time pass, and looks each second.
func (w *world) run(d time.Duration, each ...func()) {
	w.t.Helper()
	for range int(d / time.Second) {
		w.now = w.now.Add(time.Second)
		w.busy += w.rest
		for _, c := range w.tasks {
			c.pass()
			w.busy += c.cpu
		}
		for _, do := range each {
			do()
		}
		if int(w.now.Sub(start)/time.Second)%5 < 2 { // readings are 5 s apart
			w.write()
		}
		require.NoError(w.t, w.rec.Look(w.t.Context()))
	}
}

func (c *task) pass() {
	c.sums["cpu"] += c.cpu * 1e6
	for kind, share := range c.stall { // the sum of "cpu" is the CPU time
		c.sums[kind] += share * 1e6
	}
	c.sums["read"] += c.read
	c.sums["write"] += c.wrote
	c.sums["in"] += c.in
	c.sums["out"] += c.out
}

// ends ends the task's process. status is what the worker then has.
func (c *task) ends(status int) {
	c.exits[c.handle] = status
	c.kill(c.own)
	_ = c.root.Remove(recorder.DefaultBundles + "/" + c.handle + "/task.pid")
}

// neverStarts lets the container have no process of the task, as for a command that its
// image lacks.
func (c *task) neverStarts() {
	c.kill(c.own)
	require.NoError(c.t, c.root.Remove(recorder.DefaultBundles+"/"+c.handle+"/task.pid"))
}

// removed removes the container.
func (c *task) removed() {
	c.kill(c.own)
	c.kill(c.pid)
	require.NoError(c.t, os.RemoveAll(c.root.Path(recorder.DefaultBundles+"/"+c.handle)))
	delete(c.tasks, c.handle)
}

// write writes the files of the machine and its containers.
func (w *world) write() {
	w.put("/proc/uptime", fmt.Sprintf("%d.00 1.00\n", w.uptime()))
	w.put("/proc/stat", fmt.Sprintf("cpu  %.0f 0 0 1000 0 0 0 0 0 0\ncpu0 1 0 0 1\ncpu1 1 0 0 1\n", w.busy*100))
	w.put("/proc/meminfo", "MemTotal:       67108864 kB\nMemAvailable:   33554432 kB\n")
	state := "01"
	if !w.web {
		state = "06"
	}
	w.put("/proc/net/tcp", "  sl  local_address rem_address   st\n   0: 0100007F:1F90 0200000A:08AE "+state+" 0\n")
	for _, c := range w.tasks {
		c.write()
	}
}

func pressure(total float64) string {
	return fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%.0f\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=%.0f\n",
		total, total)
}

func (c *task) write() {
	dir := "/sys/fs/cgroup/garden/" + c.handle
	c.put(dir+"/cgroup.procs", fmt.Sprintf("%d\n%d\n", c.pid, c.own))
	c.put(dir+"/cpu.stat", fmt.Sprintf("usage_usec %.0f\nnr_periods %.0f\nnr_throttled %.0f\n", c.sums["cpu"], c.sums["periods"],
		c.sums["throttled"]))
	for _, kind := range []string{"cpu", "memory", "io"} {
		name := kind
		if kind == "cpu" {
			name = "wait"
		}
		c.put(dir+"/"+kind+".pressure", pressure(c.sums[name]))
	}
	limit := "max"
	if c.limit > 0 {
		limit = fmt.Sprintf("%.0f", c.limit)
	}
	c.put(dir+"/memory.max", limit+"\n")
	c.put(dir+"/memory.current", fmt.Sprintf("%.0f\n", c.memory))
	c.put(dir+"/memory.stat", "inactive_file 0\npgmajfault 0\n")
	c.put(dir+"/memory.events", fmt.Sprintf("oom %.0f\noom_kill %.0f\n", c.fixed["oom"], c.fixed["oom_kill"]))
	c.put(dir+"/memory.events.local", fmt.Sprintf("oom %.0f\noom_kill %.0f\n", c.fixed["oom"], c.fixed["oom_kill"]))
	c.put(dir+"/io.stat", fmt.Sprintf("8:0 rbytes=%.0f wbytes=%.0f rios=1 wios=1\n", c.sums["read"], c.sums["write"]))
	net := fmt.Sprintf("/proc/%d/net/", c.pid)
	c.put(net+"dev", fmt.Sprintf("Inter-|\n face |\n    lo: 9 0 0 0 0 0 0 0 9 0 0 0 0 0 0 0\n  eth0: %.0f 0 0 0 0 0 0 0 %.0f 0 0 0 0 0 0 0\n",
		c.sums["in"], c.sums["out"]))
	c.put(net+"snmp", fmt.Sprintf("Tcp: CurrEstab OutSegs RetransSegs\nTcp: %.0f %.0f %.0f\nUdp: InDatagrams OutDatagrams\n"+
		"Udp: %.0f %.0f\n", c.fixed["tcp_open"], c.sums["segments"], c.sums["resent"], c.sums["udp_in"], c.sums["udp_out"]))
	c.put(net+"netstat", fmt.Sprintf("TcpExt: TCPSynRetrans\nTcpExt: %.0f\n", c.sums["syn"]))
	c.put(net+"udp", "  sl  local_address rem_address   st\n"+strings.Repeat("  1: 0200000A:D431 0100000A:0035 01 0\n", int(c.fixed["dns"])))
}

// device returns the path of a GPU's file.
func device(gpu, file string) string {
	bus, bridge := "40", "40:01.1"
	if gpu == gpu0 {
		bus, bridge = "20", "20:01.1"
	}
	return "/sys/devices/pci0000:" + bus + "/0000:" + bridge + "/" + gpu + "/" + file
}

// verdict returns the record and the verdict of a task.
func (w *world) verdict(handle string) (taskrecord.Record, verdict.Verdict) {
	w.t.Helper()
	f, err := taskrecord.Store{Dir: w.root.Path(taskrecord.DefaultDir)}.Find(handle)
	require.NoError(w.t, err)
	require.False(w.t, f.Running, "the record has not ended")
	r, err := f.Read()
	require.NoError(w.t, err)
	require.False(w.t, r.Damaged)
	return r, verdict.Decide(&r)
}
