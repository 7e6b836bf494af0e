package recorder_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func (w *world) dump(name, gpu string) {
	dir := dumpDir + name
	w.put(dir+"/data", fmt.Sprintf(dumped+"time: %d.084775181\n%s", w.uptime(), name))
	hosttest.Link(w.t, w.root, dir+"/failing_device", w.root.Path(device(gpu, "")))
}

// open returns the record of a task that runs.
func (w *world) open(handle string) taskrecord.Record {
	f, err := taskrecord.Store{Dir: w.root.Path(taskrecord.DefaultDir)}.Find(handle)
	require.NoError(w.t, err)
	require.True(w.t, f.Running)
	r, err := f.Read()
	require.NoError(w.t, err)
	return r
}

// runForDumps looks twice, for a new dump and for its copy.
func (w *world) runForDumps(handle string, count int) {
	w.t.Helper()
	w.run(2 * time.Second)
	require.Len(w.t, w.open(handle).Evidence.Dumps, count)
}

// The kernel keeps a dump for five minutes.
func TestDumpOfAnEarlierTaskIsNotNotedAfterARestart(t *testing.T) {
	w := newWorld(t)
	w.put(device(gpu1, "mem_info_vram_used"), "0")
	w.task(handle, gpu1)
	w.run(10 * time.Second)
	w.dump("devcd1", gpu1)
	w.run(5 * time.Second)
	w.tasks[handle].removed()
	w.run(5 * time.Second)
	again := w.task(neighbour, gpu1)
	w.run(5 * time.Second)
	require.NoError(t, w.rec.Close())
	w.start()
	fails(20*time.Second, 1)(w, again)
	w.run(40 * time.Second)
	r, v := w.verdict(neighbour)
	require.Empty(t, r.End.Dumps)
	require.Equal(t, "exit-status", v.Reasons[0].Code, "%+v", v)
}

// The kernel makes the folder of a dump before its link to the device.
func TestDumpWithoutItsDeviceIsReadAgain(t *testing.T) {
	w := newWorld(t)
	w.task(handle, gpu1)
	w.run(2 * time.Second)
	const dir = "/sys/class/devcoredump/devcd1"
	w.put(dir+"/data", dumped)
	w.run(time.Second)
	hosttest.Link(t, w.root, dir+"/failing_device", w.root.Path(device(gpu1, "")))
	w.runForDumps(handle, 1)
}

// A recorder that is stopped writes all it has. One that is killed loses half a minute.
func TestEvidenceOutlivesARestartOfTheRecorder(t *testing.T) {
	const line = "amdgpu " + gpu1 + ": amdgpu: ring gfx_0.0.0 timeout, signaled seq=17, emitted seq=19"
	for _, stopped := range []bool{true, false} {
		for _, ended := range []bool{true, false} { // while no recorder ran
			w := newWorld(t)
			c := w.task(handle, gpu1)
			w.run(2 * time.Second)
			w.say(line)
			w.dump("devcd1", gpu1)
			w.runForDumps(handle, 1)
			if stopped {
				require.NoError(t, w.rec.Close())
			} else {
				w.run(time.Minute)
			}
			if ended {
				c.removed()
			}
			w.start()
			dumps := 1
			if !ended {
				w.run(5 * time.Second)
				w.dump("devcd2", gpu1)
				dumps++
				w.runForDumps(handle, dumps)
				c.ends(1)
			}
			w.run(40 * time.Second)
			r, _ := w.verdict(handle)
			require.Len(t, r.End.Kernel, 1)
			require.Equal(t, line, r.End.Kernel[0].Text)
			require.Len(t, r.End.Dumps, dumps)
			for _, d := range r.End.Dumps {
				require.Empty(t, d.Why)
				require.FileExists(t, w.root.Path(taskrecord.DefaultDir+"/"+d.File))
			}
			require.NoError(t, w.rec.Close())
		}
	}
}

// What is written while no recorder runs is found by the next one. The recorder before is
// killed: it writes nothing.
func TestDumpOfTheTimeWithoutARecorderIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		dumps  func(w *world)
		before time.Duration // of the task
		kept   int
		why    string
	}{
		"written meanwhile": {func(w *world) { w.dump("devcd1", gpu1) }, 10 * time.Second, 1, ""},
		"seen and not copied": {func(w *world) {
			w.dump("devcd1", gpu1)
			w.rec.Copy = func(func()) {}
			require.NoError(w.t, w.rec.Look(w.t.Context()))
		}, 10 * time.Second, 1, ""},
		"of another GPU": {func(w *world) { w.dump("devcd1", gpu0) }, 10 * time.Second, 0, ""},
		"without a time": {func(w *world) {
			w.dump("devcd1", gpu1)
			w.put(dumpDir+"devcd1/data", "time: never\n")
		}, 10 * time.Second, 0, ""},
		"unreadable, of a task older than any dump": {func(w *world) {
			w.dump("devcd1", gpu1)
			require.NoError(w.t, w.root.Remove(dumpDir+"devcd1/data"))
		}, 6 * time.Minute, 1, "which the machine with the driver keeps"},
	} {
		for _, ended := range []bool{false, true} { // with the container still there
			t.Run(fmt.Sprintf("%s, the task ended %t", name, ended), func(t *testing.T) {
				w := newWorld(t)
				w.put(device(gpu1, "mem_info_vram_used"), "0")
				task := w.task(handle, gpu1)
				w.run(c.before)
				at := w.now
				c.dumps(w)
				if ended {
					task.ends(1)
				}
				w.now = w.now.Add(3 * time.Second)
				w.start()
				if c.kept > 0 {
					w.runForDumps(handle, c.kept)
				}
				w.run(5 * time.Second)
				if !ended {
					task.ends(1)
				}
				w.run(40 * time.Second)
				r, v := w.verdict(handle)
				require.Len(t, r.End.Dumps, c.kept)
				events := slices.DeleteFunc(r.Events, func(e taskrecord.Event) bool { return e.Kind != taskrecord.Dump })
				require.Len(t, events, c.kept)
				if c.kept == 0 {
					require.Equal(t, "exit-status", v.Reasons[0].Code, "%+v", v)
					return
				}
				require.Equal(t, "gpu-hang", v.Reasons[0].Code, "%+v", v)
				if c.why != "" {
					require.Contains(t, r.End.Dumps[0].Why, c.why)
					return
				}
				require.WithinDuration(t, at, events[0].At, 2*time.Second, "the time of the dump, not of the restart")
				require.FileExists(t, w.root.Path(taskrecord.DefaultDir+"/"+r.End.Dumps[0].File))
			})
		}
	}
}

const dumpDir = "/sys/class/devcoredump/"

const dumped = "**** AMDGPU Device Coredump ****\n"

// A dump is kept with its digest. In a container its data may not be read.
func TestDumpOfTheGPUIsKept(t *testing.T) {
	for name, readable := range map[string]bool{"machine": true, "container": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.task(handle, gpu1)
			w.run(10 * time.Second)
			const dir = "/sys/class/devcoredump/devcd1"
			if readable {
				w.put(dir+"/data", dumped)
			}
			hosttest.Link(t, w.root, dir+"/failing_device", w.root.Path(device(gpu1, "")))
			c.ends(1)
			w.run(5 * time.Second)
			w.run(40 * time.Second)
			r, v := w.verdict(handle)
			require.Equal(t, "gpu-hang", v.Reasons[0].Code)
			require.Len(t, r.End.Dumps, 1)
			d := r.End.Dumps[0]
			require.Equal(t, dir+"/data", d.Source)
			if !readable {
				require.Contains(t, d.Why, "which the machine with the driver keeps")
				return
			}
			require.Equal(t, fmt.Sprintf("%x", sha256.Sum256([]byte(dumped))), d.Digest)
			require.EqualValues(t, len(dumped), d.Size)
			require.FileExists(t, w.root.Path(taskrecord.DefaultDir+"/"+d.File))
		})
	}
}
