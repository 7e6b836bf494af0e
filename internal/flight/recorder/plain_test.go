package recorder_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

// plain are failures of the task itself, which are never infrastructure. With a sign of it
// that the task can have made, they are unknown.
var plain = []cause{
	{"failing test", "exit-status", verdict.Task, fails(30*time.Second, 1)},
	{"failing test at once", "exit-status", verdict.Task, fails(0, 1)},
	{"segfault of the test", "crash", verdict.Task, func(w *world, c *task) {
		w.run(10 * time.Second)
		w.say(fmt.Sprintf("python3[%d]: segfault at 0 ip 00007f0a sp 00007ffd error 4 in libc.so.6[7f0a+1000]", c.own))
		fails(time.Second, 139)(w, c)
	}},
	{"abort of the test", "crash", verdict.Task, fails(30*time.Second, 134)},
	{"abort of the build", "stopped-busy", verdict.Task, fails(40*time.Second, terminated)},
	{"abort of a build that waits", "stopped-idle", verdict.Task, func(w *world, c *task) {
		w.put(device(gpu1, "gpu_busy_percent"), "0\n")
		c.cpu = 0
		fails(40*time.Second, killed)(w, c)
	}},
	{"compiler with more processes than CPUs", "exit-status", verdict.Task, func(w *world, c *task) {
		c.cpu, c.stall["wait"] = 1.9, .6
		fails(time.Minute, 2)(w, c)
	}},
	{"heartbeat of an open connection", "stopped-idle", verdict.Task, func(w *world, c *task) {
		w.put(device(gpu1, "gpu_busy_percent"), "0\n")
		c.cpu, c.in, c.fixed["tcp_open"] = .001, 50, 1
		fails(3*time.Minute, terminated)(w, c)
	}},
	{"statsd without answers", "exit-status", verdict.Task, func(w *world, c *task) {
		w.run(time.Minute, func() { c.sums["udp_out"] += 10 })
		fails(time.Second, 1)(w, c)
	}},
	{"machine check that was corrected", "exit-status", verdict.Task, func(w *world, c *task) {
		w.run(20 * time.Second)
		w.say("mce: [Hardware Error]: CPU 1: Machine Check: 0 Bank 1: 9400000000000151")
		w.say("mce: [Hardware Error]: TSC 0 ADDR 7f1c8a40 MISC 86")
		fails(5*time.Second, 1)(w, c)
	}},
	{"hot GPU of another task", "exit-status", verdict.Task, func(w *world, c *task) {
		w.task(neighbour, gpu0)
		hot(w, gpu0)
		w.say("amdgpu " + gpu0 + ": amdgpu: ring gfx_0.0.0 timeout, signaled seq=17, emitted seq=19")
		fails(time.Minute, 1)(w, c)
	}},
	{"GPU that another task uses", "exit-status", verdict.Task, func(w *world, _ *task) {
		full(w)
		again := w.task(leaked, gpu1)
		fails(20*time.Second, 1)(w, again)
	}},
	{"record that begins in the midst of the task", "exit-status", verdict.Task, func(w *world, c *task) {
		c.removed()
		full(w)
		again := w.task(leaked, gpu1)
		w.now = w.now.Add(20 * time.Second) // without a recorder
		w.write()
		fails(20*time.Second, 1)(w, again)
	}},
	{"task that uses the GPU at once", "exit-status", verdict.Task, func(w *world, c *task) {
		c.removed()
		full(w)
		again := w.task(leaked, gpu1)
		w.run(20 * time.Second)
		w.put(device(gpu1, "mem_info_vram_used"), fmt.Sprint(10<<20))
		fails(20*time.Second, 1)(w, again)
	}},
	{"task that syncs what it unpacks", "io-stalled", verdict.Unknown, func(w *world, c *task) {
		c.cpu, c.wrote, c.stall["io"] = .05, 50<<20, .9
		fails(time.Minute, 1)(w, c)
	}},
	{"test of connections without an answer", "no-connection", verdict.Unknown, func(w *world, c *task) {
		c.fixed["tcp_open"] = 2 // between its own processes
		w.run(time.Minute, func() { c.sums["syn"] += .12 })
		fails(time.Second, 1)(w, c)
	}},
	{"test of connections without an answer, and of short ones", "no-connection", verdict.Unknown, func(w *world, c *task) {
		w.run(time.Minute, func() {
			c.sums["syn"] += .12
			c.sums["resent"] += .12
			c.sums["segments"] += 1
		})
		fails(time.Second, 1)(w, c)
	}},
	{"lines in another's name", "exit-status", verdict.Task, func(w *world, c *task) {
		w.task(neighbour)
		for i := range 60 { // a process that is called like the GPU
			w.say(fmt.Sprintf("%s[%d]: segfault at 0 ip 0 sp 0 error 4 in x[1000+1000]", gpu1, 5000+i))
			w.say(fmt.Sprintf("amdgpu %s[%d]: segfault at 0 ip 0 sp 0 error 4 in x[1000+1000]", gpu1[:8], 5000+i))
			w.say(fmt.Sprintf("traps: %s: x[%d] trap invalid opcode ip:40 sp:7f error:0 in x[40+1]", gpu1, 5000+i))
			w.say(fmt.Sprintf(`traps: %s: \x5c[%d] trap invalid opcode ip:40 sp:7f error:0 in GPU reset begin![40+1]`, gpu1, 5000+i))
			w.say(fmt.Sprintf("x[%d]: segf[%d]: segfault at 0 ip 0 sp 0 error 4 in x[1000+1000]", c.own, 5000+i))
			w.say(fmt.Sprintf("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,"+
				"oom_memcg=/garden/%[1]s,task_memcg=/garden/%[1]s,task=memcg=/%[2]s,pid=%[3]d,uid=0", neighbour, handle[:8], c.own))
		}
		fails(time.Minute, 1)(w, c)
	}},
}

// Concourse keeps the container of a build that errors, for fly intercept.
func TestCommandThatDoesNotExistIsNotRunning(t *testing.T) {
	w := newWorld(t)
	w.task(handle).neverStarts()
	w.run(66 * time.Second)
	r, v := w.verdict(handle)
	require.Nil(t, r.End.Exit)
	require.Equal(t, verdict.Task, v.Kind)
	require.Equal(t, "not-started", v.Reasons[0].Code)
	require.Equal(t, "the command of the task did not start", v.Reasons[0].Text)
	require.Len(t, v.Reasons, 1)
}

// starts starts the task's process after all.
func (c *task) starts() {
	c.process(c.own)
	c.put(recorder.DefaultBundles+"/"+c.handle+"/task.pid", fmt.Sprint(c.own))
}

// A web that restarts between a container and its command starts the command later.
func TestTaskThatStartsLateHasItsOwnRecord(t *testing.T) {
	for name, restart := range map[string]func(w *world){
		"same recorder":              func(*world) {},
		"another recorder":           func(w *world) { w.restart() },
		"store lost":                 func(w *world) { w.forget(); w.start() },
		"ended before its next look": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.task(handle)
			c.neverStarts()
			w.run(2 * time.Minute)
			_, v := w.verdict(handle)
			require.Equal(t, "not-started", v.Reasons[0].Code)
			require.Empty(t, w.counts())
			if restart != nil {
				restart(w)
			}
			w.run(5 * time.Second)
			c.starts()
			began := w.now
			if restart == nil {
				w.run(time.Second)
			} else {
				w.run(30 * time.Second)
				require.WithinDuration(t, began, w.open(handle).Head.Started, time.Second)
			}
			c.ends(3)
			w.run(time.Minute)
			r, v := w.verdict(handle)
			require.Equal(t, 3, *r.End.Exit)
			require.Equal(t, "exit-status", v.Reasons[0].Code)
			c.removed()
			w.run(5 * time.Second)
			require.Equal(t, map[string]uint64{string(verdict.Task): 1}, w.counts())
		})
	}
}

func TestTaskThatNeverStartsIsCountedWhenItsContainerIsRemoved(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		w := newWorld(t)
		c := w.task(handle)
		c.neverStarts()
		w.run(2 * time.Minute)
		if restarted {
			w.restart()
			w.run(time.Minute)
		}
		require.Empty(t, w.counts())
		c.removed()
		w.run(5 * time.Second)
		require.Equal(t, map[string]uint64{string(verdict.Task): 1}, w.counts())
	}
}

// A worker has no exit status of a task that ended while no web was connected.
func TestTaskThatRanIsNotJudgedUnstarted(t *testing.T) {
	for name, run := range map[string]func(w *world, c *task){
		"it ended before a look": func(w *world, c *task) {
			c.kill(c.own) // Concourse removes task.pid with the exit status
			w.run(2 * time.Minute)
		},
		"it ended without a recorder": func(w *world, c *task) {
			w.run(20 * time.Second)
			require.NoError(t, w.rec.Close())
			c.neverStarts()
			w.now = w.now.Add(time.Minute)
			w.start()
			w.run(2 * time.Minute)
		},
		"the recorder was killed": func(w *world, c *task) {
			w.run(5 * time.Second)
			c.neverStarts()
			w.now = w.now.Add(time.Minute)
			w.start()
			w.run(2 * time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run(w, w.task(handle))
			r, v := w.verdict(handle)
			require.Nil(t, r.End.Exit)
			require.Equal(t, "no-record", v.Reasons[0].Code, "%+v", v)
		})
	}
}

// A worker that does not answer may have the exit status of a short task.
func TestTaskIsNotJudgedUnstartedWhileTheWorkerIsAway(t *testing.T) {
	w := newWorld(t)
	w.task(handle).neverStarts()
	w.worker.Close()
	w.run(5 * time.Minute)
	require.True(t, taskrecord.Store{Dir: w.root.Path(taskrecord.DefaultDir)}.Open(handle))
}

func TestPlainFailuresAreTheTask(t *testing.T) {
	for _, one := range plain {
		t.Run(one.name, func(t *testing.T) {
			r, v := judged(t, one)
			require.Equal(t, one.kind, v.Kind, "%+v", v)
			require.Equal(t, one.code, v.Reasons[0].Code, "%+v", v)
			for _, reason := range v.Reasons {
				sign := one.kind == verdict.Unknown && reason.Code == one.code && !reason.Cause
				require.False(t, reason.Kind.Infrastructure() && !sign, "%+v", reason)
			}
			if one.name == "lines in another's name" {
				require.Empty(t, r.End.Kernel)
			}
		})
	}
}
