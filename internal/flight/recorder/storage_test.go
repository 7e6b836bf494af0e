package recorder_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/disktest"
)

// A task that fails while the disk is full is judged from what is in memory, and is never
// counted as one that succeeded.
func TestTaskThatFailsOnAFullDiskIsJudged(t *testing.T) {
	if !disktest.Separate(t) {
		return
	}
	w := newWorld(t)
	c := w.task(handle, gpu1)
	w.run(40 * time.Second)
	path := w.root.Path(taskrecord.DefaultDir + "/" + handle + ".open")
	info, err := os.Stat(path)
	require.NoError(t, err)
	w.say("amdgpu " + gpu1 + ": amdgpu: GPU reset begin!")
	c.ends(1)
	w.now = w.now.Add(time.Second)
	w.write()
	disktest.Full(t, info.Size()+10, func() {
		for range 20 { // nothing more is written
			_ = w.rec.Look(t.Context())
			w.now = w.now.Add(time.Second)
		}
	})
	w.run(10 * time.Second)
	report, err := verdict.ReportFile(verdict.ReportPath).Read(w.root)
	require.NoError(t, err)
	require.Len(t, report.Entries, 1)
	require.Equal(t, verdict.GPU, report.Entries[0].Kind)
	require.Equal(t, 1, *report.Entries[0].Exit)
	require.Zero(t, report.Counts[verdict.Succeeded])
	_, v := w.verdict(handle)
	require.NotEmpty(t, v.Kind, "the record on the disk")
}

// The records are on the disk that a task fills: the readings of that time are the evidence.
func TestReadingsOfAFullDiskAreJudgedAndWrittenLater(t *testing.T) {
	if !disktest.Separate(t) {
		return
	}
	w := newWorld(t)
	c := w.task(handle, gpu1)
	w.run(40 * time.Second)
	info, err := os.Stat(w.root.Path(taskrecord.DefaultDir + "/" + handle + ".open"))
	require.NoError(t, err)
	disktest.Full(t, info.Size()+10, func() {
		w.put(device(gpu1, "ras/umc_err_count"), "ue: 2\nce: 0\n")
		for range 60 {
			w.now = w.now.Add(time.Second)
			_ = w.rec.Look(t.Context()) // it cannot write
		}
		w.put(device(gpu1, "ras/umc_err_count"), "ue: 2\nce: 0\n")
	})
	w.run(40 * time.Second)
	c.ends(1)
	w.run(40 * time.Second)
	r, v := w.verdict(handle)
	require.Equal(t, verdict.GPU, v.Kind, "%+v", v)
	longest := int64(0)
	for i := 1; i < len(r.GPUs[gpu1]); i++ {
		longest = max(longest, r.GPUs[gpu1][i].At-r.GPUs[gpu1][i-1].At)
	}
	require.LessOrEqual(t, longest, time.Second.Milliseconds(), "readings have no gap")
}
