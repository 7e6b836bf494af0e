package recorder_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
)

// A sign that comes after the end leaves the rest of the record as it was.
func TestLateSignKeepsTheEnd(t *testing.T) {
	w := signsWorld(t)
	play := func(handle string, exit int, lasts time.Duration) {
		c := w.task(handle, gpu1)
		run := quarantine.Run{Container: handle, Program: "attention", Began: w.now}
		w.run(lasts)
		c.ends(exit)
		w.run(2 * time.Second)
		require.NoError(t, quarantine.RecordFile.Write(w.root, quarantine.Record{At: w.now, Runs: []quarantine.Run{run}}))
		w.run(20 * time.Second)
	}
	play(handle, 0, time.Minute)
	play(leaked, 0, time.Minute)
	play(neighbour, killed, 5*time.Minute)
	before, _ := w.verdict(neighbour)
	require.Len(t, before.End.Earlier, 2)
	w.sayAll(mes...)
	w.run(5 * time.Second)
	r, v := w.verdict(neighbour)
	require.Equal(t, "gpu-hang", v.Reasons[0].Code, "%+v", v)
	require.Equal(t, before.End.Earlier, r.End.Earlier)
	require.Equal(t, "attention", r.End.Program)
}

// The driver asks the hardware for its error counters, which can take longer than a look waits.
func TestCountersOfASlowGPUAreReadAtTheEnd(t *testing.T) {
	w := signsWorld(t)
	counters := device(gpu1, "ras/umc_err_count")
	w.put(counters, "ue: 0\nce: 0\n")
	c := w.task(handle, gpu1)
	w.run(46 * time.Second)
	reached, answer := exportertest.FIFO(t, w.root, counters)
	c.ends(134)
	w.run(2 * time.Second)
	<-reached
	require.NoError(t, w.root.Remove(counters)) // an open FIFO without a reader hangs
	w.put(counters, "ue: 2\nce: 0\n")
	answer("ue: 2\nce: 0\n")
	w.run(14 * time.Second)
	_, v := w.verdict(handle)
	require.Equal(t, "gpu-memory-error", v.Reasons[0].Code, "%+v", v)
}

// A GPU hangs at the reading after the end. No look waits for its answer.
func TestGPUThatHangsAtTheEndIsNamed(t *testing.T) {
	w := signsWorld(t)
	counters := device(gpu1, "ras/umc_err_count")
	w.put(counters, "ue: 0\nce: 0\n")
	c := w.task(handle, gpu1)
	w.run(46 * time.Second)
	_, answer := exportertest.FIFO(t, w.root, counters)
	c.ends(134)
	w.run(14 * time.Second)
	r, v := w.verdict(handle)
	require.NotNil(t, r.End)
	require.Equal(t, "gpu-hang", v.Reasons[0].Code, "%+v", v)
	answer("ue: 0\nce: 0\n")
}

// Quarantine decides after the record's end that a step hangs one GPU after the other.
func TestLateDecisionOfQuarantineIsInTheReport(t *testing.T) {
	w := signsWorld(t)
	look := func(verdict quarantine.Verdict) {
		at := w.now
		run := quarantine.Run{Container: handle, Began: start, Verdict: verdict, Reason: "a task like it had a fault on GPU 0",
			GPUs: []quarantine.Use{{Ref: quarantine.Ref{Name: gpu1}, NewFaults: []health.Fault{{Kind: health.Hang}}, FaultAt: &at}}}
		r := quarantine.Record{At: w.now, Runs: []quarantine.Run{run}}
		if verdict != "" {
			r.Runs, r.FaultyRuns = nil, r.Runs
		}
		require.NoError(t, quarantine.RecordFile.Write(w.root, r))
	}
	c := w.task(handle, gpu1)
	w.run(20 * time.Second)
	c.ends(134)
	w.run(2 * time.Second)
	look("")
	w.run(20 * time.Second)
	kind := func() verdict.Kind {
		report, err := verdict.ReportFile(verdict.ReportPath).Read(w.root)
		require.NoError(t, err)
		require.Len(t, report.Entries, 1)
		return report.Entries[0].Kind
	}
	require.Equal(t, verdict.GPU, kind())
	look(quarantine.TaskCaused)
	w.run(10 * time.Second)
	require.Equal(t, verdict.Task, kind())
	require.Empty(t, w.counts(), "the verdict can still change")
	w.now = w.now.Add(5 * time.Minute)
	w.run(10 * time.Second)
	require.Equal(t, map[string]uint64{string(verdict.Task): 1}, w.counts())
	r, _ := w.verdict(handle)
	own := 0
	for _, e := range append(r.Events, verdict.FaultsOf(&r, quarantine.Record{})...) {
		if e.Kind == taskrecord.OwnFault {
			own++
		}
	}
	require.Equal(t, 1, own)
}
