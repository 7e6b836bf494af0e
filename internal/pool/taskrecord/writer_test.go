package taskrecord

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/testutil/disktest"
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
