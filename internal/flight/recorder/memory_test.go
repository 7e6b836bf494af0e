package recorder_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// decide takes one look at the GPU of the tasks, as the watcher does. holder has the GPU, or none.
func (w *world) decide(used float64, holder string, processes ...usage.Process) {
	total := 64. * gib
	before, err := quarantine.RecordFile.Read(w.root)
	require.NoError(w.t, err)
	l := quarantine.Look{At: w.now, Policy: quarantine.Auto, GPUs: []quarantine.Reading{
		{Slot: gpu.Slot{PCI: gpu1, Index: 1}, Up: true, Memory: &used, Total: &total, Processes: processes, UsersAt: w.now}}}
	if holder != "" {
		l.Tasks = []quarantine.Task{{Container: holder, GPUs: []string{gpu1}}}
	}
	require.NoError(w.t, quarantine.RecordFile.Write(w.root, quarantine.Decide(before, l)))
}

// A program of the machine has most of a GPU's memory before the task begins. Failures of the
// task are not the GPU's, whatever their cause, and each one names the program.
func TestMemoryOfAProgramIsNotTheGPUsFault(t *testing.T) {
	server := usage.Process{PID: 4242, Name: "llama-server", Memory: 57.8 * gib}
	for name, c := range map[string]struct {
		lasts time.Duration
		exit  int
		kind  verdict.Kind
		own   usage.Process
		used  float64
	}{
		"failed":                     {time.Minute, 1, verdict.Task, server, 58 * gib},
		"crashed":                    {time.Minute, 139, verdict.Task, server, 58 * gib},
		"stopped":                    {310 * time.Second, terminated, verdict.Task, server, 58 * gib},
		"failed without a known one": {time.Minute, 1, verdict.Task, usage.Process{}, 58 * gib},
		"failed at once":             {2 * time.Second, 1, verdict.Unknown, server, 58 * gib},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(device(gpu1, "mem_info_vram_used"), "62277025792\n")
			var all []usage.Process
			text := "and no known process has them"
			if c.own.PID > 0 {
				all, text = append(all, c.own), "58 of 64 GiB are used by llama-server, pid 4242, of this machine"
			}
			w.decide(c.used, "", all...)
			own := w.task(handle, gpu1)
			w.decide(c.used, handle, all...)
			fails(c.lasts, c.exit)(w, own)
			w.run(40 * time.Second)
			r, v := w.verdict(handle)
			require.Equal(t, c.kind, v.Kind, "%+v", v)
			last := v.Reasons[len(v.Reasons)-1]
			if c.kind == verdict.Unknown {
				last = v.Reasons[0]
			}
			require.Equal(t, "gpu-memory-taken", last.Code)
			require.Contains(t, last.Text, text)
			require.Zero(t, r.Head.GPUs[0].Memory.Ended)
		})
	}
}
