package reading

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestLongRejectedReadingsAreAReset(t *testing.T) {
	var h HangLog
	now := hosttest.Now
	poll := func(refused bool, power string) []string {
		h.End(now, &amdgpu.State{Refused: refused, RuntimePower: power}, Seen{})
		now = now.Add(3 * time.Second)
		return h.Now(now).Signals
	}
	for _, awake := range []string{"active", ""} {
		require.Empty(t, poll(true, awake))
		require.Empty(t, poll(true, awake))
		require.Equal(t, []string{SignalReset}, poll(true, awake))
		require.Empty(t, poll(false, awake), "it is back")
	}
	require.Equal(t, Hangs{Events: 2, InDay: 2}, h.Now(now))
	require.Equal(t, Hangs{Events: 2}, h.Now(now.Add(24*time.Hour)))
	for range 5 {
		require.Empty(t, poll(true, "suspended"), "a sleeping GPU refuses as well")
	}
}

// Whoever waits in vain, and however often, it is one hang, which ends when the GPU
// answers.
func TestMissedReadingsAreOneHang(t *testing.T) {
	var h HangLog
	now := hosttest.Now
	for range 2 {
		for range 3 {
			h.Missed(now)
			require.Equal(t, []string{SignalTimeout}, h.Now(now).Signals)
		}
		h.End(now, &amdgpu.State{}, Seen{})
		require.Empty(t, h.Now(now).Signals)
	}
	require.Equal(t, Hangs{Events: 2, InDay: 2}, h.Now(now))
}

// What others saw is reported as long as it is there, or for a while.
func TestSignalsOfOtherSourcesAreReported(t *testing.T) {
	var h HangLog
	now := hosttest.Now
	seen, state := Seen{Dumped: true, Logged: now}, &amdgpu.State{Fatal: now}
	look := func() Hangs {
		h.End(now, state, seen)
		return h.Now(now)
	}
	require.Equal(t, Hangs{Signals: []string{SignalDump, SignalFatal, SignalKernel}, Events: 1, InDay: 1}, look())
	seen.Dumped = false
	require.Equal(t, []string{SignalFatal, SignalKernel}, look().Signals)
	now = now.Add(5 * time.Minute)
	require.Equal(t, Hangs{Events: 1, InDay: 1}, look(), "a signal that follows another is the same hang")
}

// The driver writes a dump when a ring times out, also if the ring's reset succeeds.
func TestDumpOfARingThatWasResetIsNoHang(t *testing.T) {
	var h HangLog
	now := hosttest.Now
	look := func(seen Seen) []string {
		h.End(now, &amdgpu.State{}, seen)
		return h.Now(now).Signals
	}
	require.Empty(t, look(Seen{Dumped: true, Spared: now}))
	require.Equal(t, []string{SignalDump, SignalKernel}, look(Seen{Dumped: true, Spared: now, Logged: now}))
	require.Equal(t, []string{SignalDump}, look(Seen{Dumped: true, Spared: now.Add(-time.Hour)}))
}
