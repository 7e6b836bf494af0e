package reading

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestLongRejectedReadingsAreAReset(t *testing.T) {
	var h HangLog
	now := hosttest.Now
	poll := func(err error, awake bool) []string {
		h.Begin()
		if err == nil {
			h.NoteAnswer()
		} else {
			h.NoteError(err)
		}
		h.End(now, awake, Seen{}, time.Time{})
		now = now.Add(3 * time.Second)
		return h.Now(now).Signals
	}
	for _, refused := range []error{unix.EPERM, unix.EBUSY} {
		require.Empty(t, poll(refused, true))
		require.Empty(t, poll(refused, true))
		require.Equal(t, []string{SignalReset}, poll(refused, true))
		require.Empty(t, poll(nil, true), "it is back")
	}
	require.Equal(t, Hangs{Events: 2, InDay: 2}, h.Now(now))
	require.Equal(t, Hangs{Events: 2}, h.Now(now.Add(24*time.Hour)))
	for range 5 {
		require.Empty(t, poll(unix.EPERM, false), "a sleeping GPU refuses as well")
		require.Empty(t, poll(unix.EIO, true), "a fault is not a refusal")
	}
}
