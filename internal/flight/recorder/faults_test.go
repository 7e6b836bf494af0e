package recorder_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// The build's output has the fault of quarantine's look, so the verdict has it too.
func TestFaultOfQuarantineIsInTheVerdict(t *testing.T) {
	for kind, code := range map[health.Kind]string{health.UncorrectableErrors: "gpu-memory-error", health.Hang: "gpu-hang"} {
		w := newWorld(t)
		look := func(faults ...health.Fault) {
			run := quarantine.Run{Container: handle, Began: start}
			if len(faults) > 0 {
				at := w.now
				run.GPUs = []quarantine.Use{{Ref: quarantine.Ref{Name: gpu1}, NewFaults: faults, FaultAt: &at}}
			}
			require.NoError(t, quarantine.RecordFile.Write(w.root, quarantine.Record{At: w.now, Runs: []quarantine.Run{run}}))
		}
		w.put(device(gpu1, "mem_info_vram_used"), "0")
		c := w.task(handle, gpu1)
		w.run(20 * time.Second)
		look()
		c.ends(134)
		w.run(15 * time.Second) // no look since the end: the record waits
		look(health.Fault{Kind: kind, Value: 2})
		w.run(20 * time.Second)
		_, v := w.verdict(handle)
		require.Equal(t, verdict.GPU, v.Kind)
		require.Equal(t, code, v.Reasons[0].Code)
	}
}

// A later recorder has the runs from the store.
func TestStoppedTaskHasTheLastGoodRunsOfItsProgram(t *testing.T) {
	w := newWorld(t)
	w.put(device(gpu1, "mem_info_vram_used"), "0")
	play := func(handle string, exit int, lasts time.Duration) {
		c := w.task(handle, gpu1)
		run := quarantine.Run{Container: handle, Program: "attention", Began: w.now}
		w.run(lasts)
		c.ends(exit)
		w.run(2 * time.Second)
		require.NoError(t, quarantine.RecordFile.Write(w.root, quarantine.Record{At: w.now, Runs: []quarantine.Run{run}}))
		w.run(20 * time.Second)
		c.removed()
	}
	play(handle, 0, time.Minute)
	play(neighbour, 1, time.Minute)
	w.restart()
	play(leaked, 0, time.Minute)
	const last = "0badcafe-0000-4000-8000-000000000004"
	play(last, terminated, 5*time.Minute)
	r, v := w.verdict(last)
	require.Len(t, r.End.Earlier, 2)
	require.Equal(t, "stopped-slow", v.Reasons[0].Code)
	require.Equal(t, verdict.Unknown, v.Kind)
}
