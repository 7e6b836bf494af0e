package amdgpu

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/testutil/exportertest"
	"concourse-ci-machine/internal/testutil/hosttest"
)

func TestReadingsThatAreRefusedForLongAreAReset(t *testing.T) {
	var h HangLog
	now := hosttest.Now
	poll := func(err error, awake bool) []string {
		h.begin()
		if err == nil {
			h.answer()
		} else {
			h.asked(err)
		}
		h.end(now, awake, Seen{}, time.Time{})
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
	require.Equal(t, Hangs{Events: 2}, h.Now(now.Add(day)))
	for range 5 {
		require.Empty(t, poll(unix.EPERM, false), "a sleeping GPU refuses as well")
		require.Empty(t, poll(unix.EIO, true), "a fault is not a refusal")
	}
}

func TestFatalErrorsThatAreNewAreAHang(t *testing.T) {
	state := func(n string) string { return "current seqno: 9\nFatal Error: count:" + n + ", last_seqno:1\n" }
	root := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n", "ras/event_state": state("4")})
	r, now := readerOf(t, root)
	require.Equal(t, Hangs{}, read(r).Hangs, "what was before the exporter is no news")
	hosttest.Put(t, root, dev+"/ras/event_state", state("5"))
	r.Poll()
	require.Equal(t, Hangs{Signals: []string{SignalFatal}, Events: 1, InDay: 1}, read(r).Hangs)
	*now = now.Add(afterEvent)
	require.Equal(t, Hangs{Events: 1, InDay: 1}, read(r).Hangs)
}

// Whoever waits in vain, and however often, it is one hang, which ends when the GPU
// answers.
func TestReadingsThatAreMissedAreOneHang(t *testing.T) {
	r, now := readerOf(t, exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n"}))
	for range 2 {
		for range 3 {
			r.hangs.Missed(*now)
			require.Equal(t, []string{SignalTimeout}, r.hangs.Now(*now).Signals)
		}
		require.Empty(t, read(r).Hangs.Signals)
	}
	require.Equal(t, Hangs{Events: 2, InDay: 2}, r.hangs.Now(*now))
}

// What others saw is told as long as it is there, or for a while.
func TestSignalsOfOthersAreTold(t *testing.T) {
	r, now := readerOf(t, exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n"}))
	seen := Seen{Dumped: true, Logged: *now}
	require.Equal(t, Hangs{Signals: []string{SignalDump, SignalKernel}, Events: 1, InDay: 1}, r.Read(true, seen).Hangs)
	seen.Dumped = false
	require.Equal(t, []string{SignalKernel}, r.Read(true, seen).Hangs.Signals)
	*now = now.Add(afterEvent)
	require.Equal(t, Hangs{Events: 1, InDay: 1}, r.Read(true, seen).Hangs, "a signal that follows another is the same hang")
}
