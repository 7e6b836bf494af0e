package why

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/kernellog"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const (
	gib         = 1 << 30
	usageReport = "/run/usage.json"
	worker      = "/sys/fs/cgroup/system.slice/concourse-worker.service/cgroup.procs"
)

// cards are the GPUs of the machine, with their folders.
var cards = []struct{ pci, port, node string }{
	{"0000:23:00.0", "0000:20:01.1", "renderD128"}, {"0000:43:00.0", "0000:40:01.1", "renderD129"},
}

// booted is the time at which the machine started, and began an hour later.
var (
	booted = time.Date(2026, 8, 1, 11, 0, 0, 0, time.UTC)
	began  = booted.Add(time.Hour)
)

// lines plays the kernel's log: one record for each Read.
type lines []string

func (l *lines) Read(p []byte) (int, error) {
	if len(*l) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*l)[0])
	*l = (*l)[1:]
	return n, nil
}

// machine is a worker of files with a recorder, and a clock that the case moves.
type machine struct {
	t        *testing.T
	root     host.Root
	now      time.Time
	log      lines
	rec      *recorder.Recorder
	exits    map[string]int
	server   *httptest.Server
	tasks    []*played
	set      map[string]float64 // values of the machine, see machineDefaults
	busy     float64            // seconds of CPU time
	sums     map[string]float64
	scanned  time.Time
	services map[string]int    // processes of the worker's programs
	written  map[string]string // texts of files
}

// played holds the values of a task. Rates are for a second.
type played struct {
	handle    string
	pid, own  int
	set, sums map[string]float64
	engines   map[int]float64 // part of the time for which it works on a GPU; missing without a client
}

var machineDefaults = map[string]float64{"cpu": .1, "cpus": 8, "memory": 64 * gib, "free": 32 * gib, "web": 1,
	"disksize": 500 * gib, "diskfree": 200 * gib, "inodes": 1 << 19}

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, root: hosttest.Host(t, "mi210x4"), now: began, exits: map[string]int{}, services: map[string]int{}, written: map[string]string{},
		set: map[string]float64{}, sums: map[string]float64{}}
	for k, v := range machineDefaults {
		m.set[k] = v
	}
	m.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, ok := m.exits[strings.Split(r.URL.Path, "/")[2]]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"value": fmt.Sprint(status)})
	}))
	t.Cleanup(m.server.Close)
	m.put("/proc/sys/kernel/random/boot_id", "boot-1\n")
	m.serve("concourse", "containerd")
	for _, gpu := range []string{"gpu", "gpu1"} {
		m.step(gpu + " busy=0 membusy=0 power=40 clock=1700 temp=45 vram=10M ue=0 ce=0")
	}
	m.record()
	return m
}

// put writes a file that has another text.
func (m *machine) put(path, text string) {
	if m.written[path] == text {
		return
	}
	m.written[path] = text
	path = m.root.Path(path)
	if os.WriteFile(path, []byte(text), 0o644) != nil {
		require.NoError(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(m.t, os.WriteFile(path, []byte(text), 0o644))
	}
}

// record starts a recorder.
func (m *machine) record() {
	m.write()
	var err error
	m.rec, err = recorder.New(recorder.Options{Root: m.root, Worker: m.server.URL, Usage: usageReport, Volumes: "/", Disk: m.disk,
		Limits: taskrecord.Limits{Bytes: 64 << 20, Age: 24 * time.Hour, FailedAge: 96 * time.Hour},
		Now:    func() time.Time { return m.now }, Kernel: kernellog.Of(&m.log, booted),
		Copy: func(work func()) { work() }})
	require.NoError(m.t, err)
}

// disk answers for the disk of the volumes.
func (m *machine) disk(_ string, to *unix.Statfs_t) error {
	to.Bsize, to.Blocks, to.Bavail = 4096, uint64(m.set["disksize"]/4096), uint64(m.set["diskfree"]/4096)
	to.Files, to.Ffree = 1<<20, uint64(m.set["inodes"])
	return nil
}

// serve lets the worker's service have these programs, and starts those that it lacks.
func (m *machine) serve(names ...string) {
	var pids string
	next := map[string]int{}
	for _, name := range names {
		pid, running := m.services[name]
		if !running {
			pid = 10_000 + 2*int(m.uptime()) + len(next)
			m.process(pid)
			hosttest.Link(m.t, m.root, fmt.Sprintf("/proc/%d/exe", pid), "/opt/concourse/bin/"+name)
		}
		next[name] = pid
		pids += fmt.Sprintf("%d\n", pid)
	}
	for name, pid := range m.services {
		if next[name] != pid {
			m.kill(pid)
		}
	}
	m.services = next
	m.put(worker, pids)
}

func (m *machine) uptime() float64 { return m.now.Sub(booted).Seconds() }

func (m *machine) process(pid int) {
	m.put(fmt.Sprintf("/proc/%d/stat", pid), fmt.Sprintf("%d (x) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 %.0f 1 1\n",
		pid, m.uptime()*100))
}

func (m *machine) kill(pid int) { m.removeAll(fmt.Sprintf("/proc/%d", pid)) }

func (m *machine) removeAll(path string) {
	require.NoError(m.t, os.RemoveAll(m.root.Path(path)))
	clear(m.written)
}

func (m *machine) gpuFile(gpu int, file string) string {
	c := cards[gpu]
	return "/sys/devices/pci" + c.port[:7] + "/" + c.port + "/" + c.pci + "/" + file
}

// start starts a task on GPUs.
func (m *machine) start(gpus ...int) *played {
	n := len(m.tasks)
	c := &played{handle: fmt.Sprintf("0badcafe-0000-4000-8000-%012d", n+1), pid: 1000 + 100*n, own: 1001 + 100*n,
		set: map[string]float64{"cpu": 1, "memory": gib}, sums: map[string]float64{}, engines: map[int]float64{}}
	m.tasks = append(m.tasks, c)
	m.process(c.pid)
	m.process(c.own)
	m.put(fmt.Sprintf("/proc/%d/cgroup", c.pid), "0::/garden/"+c.handle+"\n")
	mounts := "37 35 0:31 /x /tmp/build/1c633350 rw - ext4 x rw\n"
	for _, g := range gpus {
		mounts += "38 35 0:5 /x /dev/dri/" + cards[g].node + " rw - devtmpfs x rw\n"
	}
	m.put(fmt.Sprintf("/proc/%d/mountinfo", c.pid), mounts)
	m.put(fmt.Sprintf("/proc/%d/root/etc/resolv.conf", c.pid), "search x\nnameserver 10.0.0.1\n")
	m.write()
	bundle := recorder.DefaultBundles + "/" + c.handle
	m.put(bundle+"/init.pid", fmt.Sprint(c.pid))
	m.put(bundle+"/task.pid", fmt.Sprint(c.own))
	return c
}

// end ends the process of a task. status is the worker's answer, or -1 for none.
func (m *machine) end(c *played, status int) {
	if status >= 0 {
		m.exits[c.handle] = status
	}
	m.kill(c.own)
	_ = m.root.Remove(recorder.DefaultBundles + "/" + c.handle + "/task.pid")
}

func (m *machine) remove(c *played) {
	m.kill(c.own)
	m.kill(c.pid)
	m.removeAll(recorder.DefaultBundles + "/" + c.handle)
}

// run lets time pass. The recorder looks each second near changes, and each 10 s between.
func (m *machine) run(d time.Duration) {
	for end := m.now.Add(d); m.now.Before(end); {
		step := time.Second
		if left := end.Sub(m.now); left < d-10*time.Second && left > 20*time.Second {
			step = 10 * time.Second
		}
		m.now = m.now.Add(step)
		m.pass(step.Seconds())
		m.write()
		require.NoError(m.t, m.rec.Look(m.t.Context()))
	}
}

// sumOf names the counters that grow by a rate.
var rates = []string{"cpu", "wait", "memstall", "iostall", "read", "write", "in", "out", "segments", "resent", "syn",
	"udp_in", "udp_out", "periods", "throttled"}

func (m *machine) pass(seconds float64) {
	m.busy += m.set["cpu"] * seconds
	for _, stall := range []string{"wait", "memstall", "iostall"} {
		m.sums[stall] += m.set[stall] * seconds * 1e6
	}
	for _, c := range m.tasks {
		m.busy += c.set["cpu"] * seconds
		for _, name := range rates {
			per := c.set[name]
			if strings.HasSuffix(name, "stall") || name == "cpu" || name == "wait" {
				per *= 1e6
			}
			c.sums[name] += per * seconds
		}
	}
	if m.now.Sub(m.scanned) >= 15*time.Second {
		m.scan()
	}
}

// scan writes the users of the GPUs, unless no case of the machine has clients.
func (m *machine) scan() {
	result := usage.Result{At: m.now}
	known := false
	for g, card := range cards {
		used := usage.Used{Slot: gpu.Slot{PCI: card.pci}}
		for _, c := range m.tasks {
			_, scanned := c.set["scanned"]
			known = known || scanned
			part, client := c.engines[g]
			if !client {
				continue
			}
			c.sums[card.pci] += part * 15
			used.Rows = append(used.Rows, usage.Row{Container: c.handle, Processes: 1,
				Busy:    []usage.Amount{{Name: "gfx", Value: part}},
				Engines: []usage.Amount{{Name: "gfx", Value: c.sums[card.pci]}}})
		}
		result.Devices = append(result.Devices, used)
	}
	if m.scanned = m.now; known {
		require.NoError(m.t, usage.File(usageReport).Write(m.root, result))
	}
}

func pressure(kind string, total float64) string {
	return fmt.Sprintf("%s avg10=0.00 avg60=0.00 avg300=0.00 total=%.0f\n", kind, total)
}

// write writes the files of the machine and its tasks.
func (m *machine) write() {
	m.put("/proc/uptime", fmt.Sprintf("%.2f 1.00\n", m.uptime()))
	m.put("/proc/stat", fmt.Sprintf("cpu  %.0f 0 0 1000 0 0 0 0 0 0\n", m.busy*100)+
		strings.Repeat("cpu0 1 0 0 1\n", int(m.set["cpus"])))
	m.put("/proc/meminfo", fmt.Sprintf("MemTotal: %.0f kB\nMemAvailable: %.0f kB\n", m.set["memory"]/1024, m.set["free"]/1024))
	for kind, name := range map[string]string{"cpu": "wait", "memory": "memstall", "io": "iostall"} {
		m.put("/proc/pressure/"+kind, pressure("some", m.sums[name])+pressure("full", m.sums[name]))
	}
	state := "06"
	if m.set["web"] > 0 {
		state = "01"
	}
	m.put("/proc/net/tcp", "  sl  local_address rem_address   st\n   0: 0100007F:1F90 0200000A:08AE "+state+" 0\n")
	for _, c := range m.tasks {
		m.writeGroup(c)
		m.writeNet(c)
	}
}

func (m *machine) writeGroup(c *played) {
	dir := "/sys/fs/cgroup/garden/" + c.handle
	m.put(dir+"/cgroup.procs", fmt.Sprintf("%d\n%d\n", c.pid, c.own))
	m.put(dir+"/cpu.stat", fmt.Sprintf("usage_usec %.0f\nnr_periods %.0f\nnr_throttled %.0f\n", c.sums["cpu"],
		c.sums["periods"], c.sums["throttled"]))
	for kind, name := range map[string]string{"cpu": "wait", "memory": "memstall", "io": "iostall"} {
		m.put(dir+"/"+kind+".pressure", pressure("some", c.sums[name])+pressure("full", c.sums[name]))
	}
	limit := "max"
	if c.set["limit"] > 0 {
		limit = fmt.Sprintf("%.0f", c.set["limit"])
	}
	m.put(dir+"/memory.max", limit+"\n")
	m.put(dir+"/memory.current", fmt.Sprintf("%.0f\n", c.set["memory"]))
	m.put(dir+"/memory.stat", "inactive_file 0\npgmajfault 0\n")
	for _, file := range []string{"memory.events", "memory.events.local"} {
		m.put(dir+"/"+file, fmt.Sprintf("oom %.0f\noom_kill %.0f\n", c.set["oom"], c.set["oom_kill"]))
	}
	m.put(dir+"/io.stat", fmt.Sprintf("8:0 rbytes=%.0f wbytes=%.0f rios=1 wios=1\n", c.sums["read"], c.sums["write"]))
}

func (m *machine) writeNet(c *played) {
	net := fmt.Sprintf("/proc/%d/net/", c.pid)
	if !m.root.Exists(fmt.Sprintf("/proc/%d/stat", c.pid)) {
		return
	}
	m.put(net+"dev", fmt.Sprintf("Inter-|\n face |\n  eth0: %.0f 0 0 0 0 0 0 0 %.0f 0 0 0 0 0 0 0\n", c.sums["in"], c.sums["out"]))
	m.put(net+"snmp", fmt.Sprintf("Tcp: CurrEstab OutSegs RetransSegs\nTcp: %.0f %.0f %.0f\nUdp: InDatagrams OutDatagrams\n"+
		"Udp: %.0f %.0f\n", c.set["tcp_open"], c.sums["segments"], c.sums["resent"], c.sums["udp_in"], c.sums["udp_out"]))
	m.put(net+"netstat", fmt.Sprintf("TcpExt: TCPSynRetrans\nTcpExt: %.0f\n", c.sums["syn"]))
	remote := "0100000A"
	switch {
	case c.set["dns_own"] > 0: // a name server of the task itself
		remote = "0100007F"
	case c.set["dns_foreign"] > 0: // one that Concourse did not give
		remote = "09090909"
	}
	m.put(net+"udp", "  sl  local_address rem_address   st\n"+
		strings.Repeat("  1: 0200000A:D431 "+remote+":0035 01 0\n", int(c.set["dns"])))
}
