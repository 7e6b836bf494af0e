package recorder_test

import (
	"fmt"
	"os"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

// cause is one injected cause. inject runs the task up to its end.
type cause struct {
	name, code string
	kind       verdict.Kind
	inject     func(w *world, c *task)
}

// fails lets the task run, and end with a status.
func fails(d time.Duration, status int) func(w *world, c *task) {
	return func(w *world, c *task) {
		w.run(d)
		c.ends(status)
	}
}

// idlesAndEnds lets the task do nothing for five minutes. It uses CPU time, in microseconds,
// until it is stopped.
func idlesAndEnds(cpu float64) func(w *world, c *task) {
	return func(w *world, c *task) {
		w.run(20 * time.Second)
		c.cpu = .001
		w.put(device(gpu1, "gpu_busy_percent"), "0\n")
		w.run(5 * time.Minute)
		c.sums["cpu"] += cpu
		w.write()
		fails(0, terminated)(w, c)
	}
}

// leaked is the task that gets a GPU with memory in use.
const leaked = "0badcafe-0000-4000-8000-000000000003"

const throttled, terminated, killed = 36, 143, 137

var causes = []cause{
	{"throttled GPU", "gpu-throttled", verdict.GPU, func(w *world, c *task) {
		hot(w, gpu1)
		fails(2*time.Minute, terminated)(w, c)
	}},
	{"hang of the GPU", "gpu-hang", verdict.GPU, func(w *world, c *task) {
		w.run(time.Minute)
		w.say("amdgpu " + gpu1 + ": amdgpu: ring gfx_0.0.0 timeout, signaled seq=17, emitted seq=19")
		w.say("amdgpu " + gpu1 + ": amdgpu: GPU reset begin!")
		w.run(3 * time.Second)
		c.ends(134)
	}},
	{"hang after many crashes", "gpu-hang", verdict.GPU, func(w *world, c *task) {
		for range 600 {
			w.say(fmt.Sprintf("python3[%d]: segfault at 0 ip 00007f0a sp 00007ffd error 4 in libc.so.6[7f0a+1000]", c.own))
		}
		w.run(10 * time.Second)
		w.say("amdgpu " + gpu1 + ": amdgpu: GPU reset begin!")
		fails(3*time.Second, 1)(w, c)
	}},
	{"hang after the end", "gpu-hang", verdict.GPU, func(w *world, c *task) {
		fails(time.Minute, 1)(w, c)
		w.run(8 * time.Second)
		w.say("amdgpu " + gpu1 + ": amdgpu: ring sdma0 timeout, signaled seq=17, emitted seq=19")
	}},
	{"GPU that answers nothing", "gpu-lost", verdict.GPU, func(w *world, c *task) {
		w.run(30 * time.Second)
		require.NoError(w.t, os.RemoveAll(w.root.Path(device(gpu1, ""))))
		fails(20*time.Second, 1)(w, c)
	}},
	{"leaked memory of the GPU", "gpu-memory-leaked", verdict.GPU, func(w *world, c *task) {
		w.decide(10<<20, "")
		w.run(time.Minute) // the container is removed, and another one gets the GPU
		w.decide(10<<20, c.handle)
		c.removed()
		full(w)
		w.decide(62*gib, "")
		again := w.task(leaked, gpu1)
		fails(20*time.Second, 1)(w, again)
	}},
	{"ECC", "gpu-memory-error", verdict.GPU, func(w *world, c *task) {
		w.run(10 * time.Second)
		w.put(device(gpu1, "ras/umc_err_count"), "ue: 2\nce: 0\n")
		fails(40*time.Second, 1)(w, c)
	}},
	{"OOM of the task", "oom-limit", verdict.Task, func(w *world, c *task) {
		c.memory, c.fixed["oom"], c.fixed["oom_kill"] = c.limit, 1, 1
		w.say(fmt.Sprintf("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=%s,mems_allowed=0,"+
			"oom_memcg=/garden/%[1]s,task_memcg=/garden/%[1]s,task=python3,pid=%d,uid=0", handle, c.own))
		fails(5*time.Second, killed)(w, c)
	}},
	{"OOM of the task, without the kernel's log", "oom-limit", verdict.Task, func(w *world, c *task) {
		c.memory, c.fixed["oom"], c.fixed["oom_kill"] = c.limit, 1, 1
		fails(5*time.Second, killed)(w, c)
	}},
	{"OOM of the task between two readings, without the kernel's log and peak", "oom-limit", verdict.Task,
		func(w *world, c *task) {
			w.run(5 * time.Second)
			c.fixed["oom"], c.fixed["oom_kill"] = 1, 1
			fails(5*time.Second, killed)(w, c)
		}},
	{"OOM by a neighbour", "oom-outside", verdict.Neighbour, func(w *world, c *task) {
		w.task(neighbour).memory = 50 * gib
		w.run(20 * time.Second)
		c.fixed["oom_kill"] = 1
		fails(2*time.Second, killed)(w, c)
	}},
	{"OOM of the machine", "oom-outside", verdict.Machine, func(w *world, c *task) {
		w.run(20 * time.Second)
		c.fixed["oom_kill"] = 1
		w.say("oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom," +
			"task_memcg=/garden/" + handle + ",task=python3,pid=1001,uid=0")
		fails(2*time.Second, killed)(w, c)
	}},
	{"CPU starved by a neighbour", "cpu-starved", verdict.Neighbour, func(w *world, c *task) {
		w.task(neighbour).cpu = 1.9
		c.cpu, c.stall["wait"] = .1, .8
		fails(2*time.Minute, terminated)(w, c)
	}},
	{"CPU starved by the machine", "cpu-starved", verdict.Machine, func(w *world, c *task) {
		w.rest, c.cpu, c.stall["wait"] = 1.9, .1, .8
		fails(2*time.Minute, 1)(w, c)
	}},
	{"CPU quota", "cpu-throttled", verdict.Machine, func(w *world, c *task) {
		c.cpu = .1
		for range 60 {
			w.run(time.Second)
			c.sums["periods"] += 10
			c.sums["throttled"] += 9
		}
		fails(time.Second, terminated)(w, c)
	}},
	{"stalled disk", "io-stalled", verdict.Machine, func(w *world, c *task) {
		c.cpu, c.stall["io"] = .05, .9
		fails(time.Minute, terminated)(w, c)
	}},
	{"disk of a neighbour", "io-stalled", verdict.Neighbour, func(w *world, c *task) {
		w.task(neighbour).wrote = 500 << 20
		c.cpu, c.wrote, c.stall["io"] = .05, 1<<20, .7
		fails(time.Minute, 1)(w, c)
	}},
	{"memory of the machine", "memory-stalled", verdict.Machine, func(w *world, c *task) {
		c.cpu, c.stall["memory"] = .05, .7
		fails(time.Minute, 1)(w, c)
	}},
	{"slow registry", "download-slow", verdict.Machine, func(w *world, c *task) {
		c.cpu, c.in, c.fixed["tcp_open"] = .001, 8<<10, 1
		fails(3*time.Minute, terminated)(w, c)
	}},
	{"name server away", "dns-away", verdict.Machine, func(w *world, c *task) {
		c.cpu, c.fixed["dns"] = .001, 1
		w.run(20*time.Second, func() { c.sums["udp_out"] += .5 })
		fails(time.Second, 2)(w, c)
	}},
	{"registry away", "no-connection", verdict.Machine, func(w *world, c *task) {
		c.cpu = .001
		w.run(time.Minute, func() { c.sums["syn"] += .12 })
		fails(time.Second, 1)(w, c)
	}},
	{"lost packets", "packets-lost", verdict.Machine, func(w *world, c *task) {
		w.run(time.Minute, func() {
			c.sums["segments"] += 20
			c.sums["resent"] += 4
		})
		fails(time.Second, 1)(w, c)
	}},
	{"restart of the worker", "worker-ended", verdict.Concourse, func(w *world, c *task) {
		w.run(30 * time.Second)
		w.kill(100)
		w.put("/sys/fs/cgroup/system.slice/concourse-worker.service/cgroup.procs", "101\n110\n")
		w.program(110, "concourse")
		w.run(20 * time.Second)
		c.removed()
	}},
	{"containerd killed", "containerd-ended", verdict.Concourse, func(w *world, c *task) {
		w.run(30 * time.Second)
		w.kill(101)
		w.run(20 * time.Second)
		c.kill(c.own) // and no exit status
		w.run(time.Minute)
	}},
	{"web away", "web-away", verdict.Concourse, func(w *world, c *task) {
		w.run(30 * time.Second)
		w.web = false
		w.run(time.Minute)
		c.removed()
	}},
	{"power loss", "power-loss", verdict.Machine, func(w *world, c *task) {
		w.run(2 * time.Minute)
		for _, pid := range []int{c.pid, c.own} {
			w.kill(pid)
		}
		require.NoError(w.t, os.RemoveAll(w.root.Path("/run/containerd")))
		delete(w.tasks, c.handle)
		w.boot("boot-2")
		w.now = w.now.Add(5 * time.Minute)
		w.start() // the recorder before wrote nothing at the end
	}},
	{"machine check", "hardware-error", verdict.Machine, func(w *world, c *task) {
		w.run(20 * time.Second)
		w.say("mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 5: bea0000000000108")
		fails(5*time.Second, 135)(w, c)
	}},
	{"timeout with an idle GPU", "stopped-idle", verdict.Task, func(w *world, c *task) {
		w.run(20 * time.Second)
		c.cpu = .001
		w.put(device(gpu1, "gpu_busy_percent"), "0\n")
		fails(5*time.Minute, terminated)(w, c)
	}},
	{"timeout with an idle GPU, and the end takes CPU time", "stopped-idle", verdict.Task, idlesAndEnds(300_000)},
	{"timeout after the work began again", "stopped-busy", verdict.Task, idlesAndEnds(1e6)},
	{"timeout with a busy GPU", "stopped-busy", verdict.Task, func(w *world, c *task) {
		c.cpu = .01
		w.put(device(gpu1, "gpu_busy_percent"), "99\n")
		fails(5*time.Minute, terminated)(w, c)
	}},
}

// full fills the memory of GPU 1, which has 64 GiB.
func full(w *world) { w.put(device(gpu1, "mem_info_vram_used"), fmt.Sprint(62*gib)) }

// hot makes a GPU slow down by heat.
func hot(w *world, gpu string) {
	data, err := w.root.ReadFile(device(gpu, "gpu_metrics"))
	require.NoError(w.t, err)
	data[112+throttled/8] |= 1 << (throttled % 8) // indep_throttle_status: the hotspot
	w.put(device(gpu, "gpu_metrics"), string(data))
	dirs, err := w.root.Glob(device(gpu, "hwmon/hwmon*"))
	require.NoError(w.t, err)
	for _, d := range dirs {
		for n := 1; n <= 3; n++ {
			if limit, err := w.root.ReadFile(path.Join(d, fmt.Sprintf("temp%d_crit", n))); err == nil {
				w.put(path.Join(d, fmt.Sprintf("temp%d_input", n)), string(limit))
			}
		}
	}
}

// judged injects a cause and returns the verdict.
func judged(t *testing.T, one cause) (taskrecord.Record, verdict.Verdict) {
	w := newWorld(t)
	w.put(device(gpu1, "mem_info_vram_used"), fmt.Sprint(10<<20))
	c := w.task(handle, gpu1)
	c.limit = 2 * gib
	w.run(2 * time.Second)
	one.inject(w, c)
	w.run(40 * time.Second)
	if w.tasks[leaked] != nil {
		return w.verdict(leaked)
	}
	return w.verdict(handle)
}

func TestCausesAreNamed(t *testing.T) {
	for _, one := range causes {
		t.Run(one.name, func(t *testing.T) {
			r, v := judged(t, one)
			require.NotEmpty(t, v.Reasons)
			require.Equal(t, one.kind, v.Kind, "%+v", v)
			require.Equal(t, one.code, v.Reasons[0].Code, "%+v", v)
			require.NotEmpty(t, r.Machine)
		})
	}
	require.GreaterOrEqual(t, len(causes), 20)
}

// All users of the machine can read the report. The kernel's lines are for root.
func TestReportHasNoTextOfTheKernel(t *testing.T) {
	for text, line := range map[string]string{
		"an uncorrected machine check":   "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 5: bea0000000000108",
		"an uncorrected error of memory": "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0",
		"an error of a disk":             "critical medium error, dev sda, sector 4096 op 0x0:(READ)",
	} {
		w := newWorld(t)
		c := w.task(handle)
		w.run(10 * time.Second)
		w.say(line)
		fails(5*time.Second, 135)(w, c)
		w.run(40 * time.Second)
		r, v := w.verdict(handle)
		require.Equal(t, "the kernel logged: "+text, v.Reasons[0].Text)
		require.Equal(t, line, r.End.Kernel[0].Text)
		data, err := w.root.ReadFile(verdict.ReportPath)
		require.NoError(t, err)
		require.NotContains(t, string(data), line)
	}
}

func TestSucceededTaskHasNoVerdict(t *testing.T) {
	w := newWorld(t)
	c := w.task(handle)
	fails(10*time.Second, 0)(w, c)
	w.run(40 * time.Second)
	_, v := w.verdict(handle)
	require.Empty(t, v.Kind)
	report, err := verdict.ReportFile(verdict.ReportPath).Read(w.root)
	require.NoError(t, err)
	require.Len(t, report.Entries, 1)
	require.Equal(t, 0, *report.Entries[0].Exit)
}
