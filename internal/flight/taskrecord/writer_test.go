package taskrecord

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/disktest"
)

func TestFailedWriteHidesNoLaterPart(t *testing.T) {
	if !disktest.Separate(t) {
		return
	}
	s := Store{t.TempDir()}
	w, err := s.Begin(Head{Handle: handleOf(1), Started: began})
	require.NoError(t, err)
	info, err := os.Stat(s.path(handleOf(1), running))
	require.NoError(t, err)
	disktest.Full(t, info.Size()+20, func() {
		require.ErrorContains(t, w.Samples("", samples(3, NumCounters, began, time.Second)), "cannot record a task")
	})
	require.NoError(t, w.Samples("", samples(2, NumCounters, began, time.Second)))
	require.NoError(t, w.End(End{Ended: began, Ending: Exited, Exit: intPointer(1)}))
	f, err := s.Find(handleOf(1))
	require.NoError(t, err)
	r, err := f.Read()
	require.NoError(t, err)
	require.False(t, r.Damaged)
	require.Len(t, r.Machine, 2)
	require.NotNil(t, r.End.Exit)
}

// The name of the file has whether the task failed, so the record ends without its end.
func TestRecordWithoutRoomForItsEndEnds(t *testing.T) {
	if !disktest.Separate(t) {
		return
	}
	for exit, want := range []bool{false, true} {
		s := Store{t.TempDir()}
		w, err := s.Begin(Head{Handle: handleOf(1), Started: began})
		require.NoError(t, err)
		info, err := os.Stat(s.path(handleOf(1), running))
		require.NoError(t, err)
		disktest.Full(t, info.Size()+5, func() {
			require.Error(t, w.End(End{Ended: began.Add(time.Hour), Ending: Exited, Exit: &exit}))
		})
		f, err := s.Find(handleOf(1))
		require.NoError(t, err)
		require.False(t, f.Running, "it could never be removed")
		r, err := f.Read()
		require.NoError(t, err)
		require.Equal(t, want, r.Failed())
		require.Equal(t, Unseen, r.End.Ending)
		require.NoError(t, s.Prune(time.Now().Add(time.Hour), Limits{1 << 30, time.Minute, time.Minute}))
		require.False(t, s.Ended(handleOf(1)))
	}
}

func TestRecordThatCannotBeginLeavesNoFile(t *testing.T) {
	if !disktest.Separate(t) {
		return
	}
	s := Store{t.TempDir()}
	disktest.Full(t, 5, func() {
		_, err := s.Begin(Head{Handle: handleOf(1), Started: began})
		require.ErrorContains(t, err, "cannot record a task")
	})
	require.False(t, s.Open(handleOf(1)))
}

// plain returns samples without values.
func plain(n, counters int, from time.Time) (all []Sample) {
	for i := range n {
		all = append(all, NewSample(from.Add(time.Duration(i)*time.Second), counters))
	}
	return all
}

// A task may run for days with many GPUs. Its readings then end before it, and nothing
// more.
func TestLongRecordKeepsItsEnd(t *testing.T) {
	const batch, batches = 20_000, 60
	s := Store{t.TempDir()}
	w, err := s.Begin(Head{Handle: handleOf(1), Started: began})
	require.NoError(t, err)
	for n := range batches {
		require.NoError(t, w.Samples(fmt.Sprint("gpu", n%8), plain(batch, NumGPUCounters, began)))
		if n == batches/2 { // a recorder that begins again counts what is there
			require.NoError(t, w.Close())
			w, _, err = s.Resume(handleOf(1))
			require.NoError(t, err)
		}
		require.NoError(t, w.Samples("", plain(10, NumCounters, began)))
	}
	require.NoError(t, w.Event(Event{At: began, Kind: Crash}))
	require.NoError(t, w.End(End{Ended: began, Ending: Exited, Exit: intPointer(1)}))
	f, err := s.Find(handleOf(1))
	require.NoError(t, err)
	r, err := f.Read()
	require.NoError(t, err)
	require.False(t, r.Damaged)
	require.Equal(t, Exited, r.End.Ending)
	require.Equal(t, 10*batches, len(r.Machine), "the machine's readings go on")
	rows := 0
	for _, gpu := range r.GPUs {
		rows += len(gpu)
	}
	require.LessOrEqual(t, rows, 200_000, "readers have 256 MB")
	require.Len(t, r.Events, 2)
	require.Equal(t, Full, r.Events[0].Kind)
}

// A record of an earlier version may have more readings.
func TestReadingsBeyondTheLimitAreLeftOut(t *testing.T) {
	first := newHead(Head{Handle: handleOf(1), Started: began})
	first.Head.GPUCounters = GPUCounters[:1]
	data := file(t, first)
	data = append(data, bytes.Repeat(file(t, newSamples("gpu", plain(20_000, 1, began))), 15)...)
	r, err := Decode(append(data, file(t, part{End: &End{Ended: began, Ending: Exited, Exit: intPointer(0)}})...))
	require.NoError(t, err)
	require.Equal(t, 200_000, len(r.GPUs["gpu"])) // Len prints them all
	require.NotNil(t, r.End)
}
