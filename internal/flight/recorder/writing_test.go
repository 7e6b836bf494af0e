package recorder

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

// unwritable returns a container with a record that cannot be written.
func unwritable(t *testing.T) *container {
	w, err := taskrecord.Store{Dir: t.TempDir()}.Begin(taskrecord.Head{Handle: "0badcafe-0000-4000-8000-000000000001"})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return &container{writer: w, repeats: map[taskrecord.EventKind]int{},
		record: taskrecord.Record{GPUs: map[string][]taskrecord.Sample{}}}
}

func samples(n, counters int) (all []taskrecord.Sample) {
	for i := range n {
		all = append(all, taskrecord.NewSample(time.Unix(int64(i), 0), counters))
	}
	return all
}

// A disk can be full for days: the readings in memory are bounded.
func TestLastReadingsWaitForAFullDisk(t *testing.T) {
	for n, want := range map[int]struct {
		count int
		first int64
	}{599: {599, 0}, 600: {600, 0}, 601: {600, 1000}, 1500: {600, 900_000}} {
		c := unwritable(t)
		c.record.Machine = samples(n, taskrecord.NumCounters)
		c.record.GPUs["0000:03:00.0"] = samples(n, taskrecord.NumGPUCounters)
		require.Error(t, c.flush())
		for _, kept := range [][]taskrecord.Sample{c.record.Machine, c.record.GPUs["0000:03:00.0"]} {
			require.Len(t, kept, want.count)
			require.Equal(t, want.first, kept[0].At)
		}
	}
}

// A task can crash as often as it likes. Its crashes leave room for other events.
func TestEventsAreBounded(t *testing.T) {
	c := unwritable(t)
	add := func(kind taskrecord.EventKind, n int) {
		for range n {
			_ = c.event(taskrecord.Event{Kind: kind})
		}
	}
	add(taskrecord.Crash, 100)
	require.Len(t, c.record.Events, 20)
	add(taskrecord.GPUHang, 480)
	require.Len(t, c.record.Events, 500)
	add(taskrecord.GPUHang, 1)
	require.Len(t, c.record.Events, 500)

	again := unwritable(t)
	again.resume(taskrecord.Record{Events: c.record.Events})
	c = again
	add(taskrecord.Crash, 1)
	require.Equal(t, 20, c.repeats[taskrecord.Crash], "an earlier recorder counted them")
}

func TestEvidenceIsWrittenAgainUntilItIsOnTheDisk(t *testing.T) {
	c := unwritable(t)
	c.unsaved = true
	require.Error(t, c.save())
	require.True(t, c.unsaved)
	store := taskrecord.Store{Dir: t.TempDir()}
	var err error
	c.writer, err = store.Begin(taskrecord.Head{Handle: "0badcafe-0000-4000-8000-000000000002"})
	require.NoError(t, err)
	require.NoError(t, c.save())
	require.False(t, c.unsaved)
}
