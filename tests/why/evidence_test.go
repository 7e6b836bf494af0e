package why

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/pool/taskrecord"
	"concourse-ci-machine/internal/testutil/hosttest"
)

func (w *world) dump(name, gpu string) {
	dir := "/sys/class/devcoredump/" + name
	w.put(dir+"/data", dumped+name)
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

// runUntilDumps looks until so many dumps are copied, which is done beside the looks.
func (w *world) runUntilDumps(handle string, count int) {
	for range 1000 {
		w.run(time.Second)
		if len(w.open(handle).Evidence.Dumps) == count {
			return
		}
	}
	w.t.Fatalf("%d dumps are not kept", count)
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
	w.runUntilDumps(handle, 1)
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
			w.runUntilDumps(handle, 1)
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
				w.runUntilDumps(handle, dumps)
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
				require.Contains(t, d.Why, "on the machine with the driver")
				return
			}
			require.Equal(t, fmt.Sprintf("%x", sha256.Sum256([]byte(dumped))), d.Digest)
			require.EqualValues(t, len(dumped), d.Size)
			require.FileExists(t, w.root.Path(taskrecord.DefaultDir+"/"+d.File))
		})
	}
}
