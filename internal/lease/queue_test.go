package lease

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// waiting makes Sleep a list of what happens meanwhile, one after the other.
func (w *world) waiting(l Leases, meanwhile ...func()) Leases {
	l.Sleep = func(d time.Duration) {
		w.clock = w.clock.Add(d)
		if len(meanwhile) > 0 {
			next := meanwhile[0]
			meanwhile = meanwhile[1:]
			next()
		}
	}
	return l
}

func TestWaiterLeasesAsSoonAsItCan(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	first := w.call("c1", w.spawn(""))
	_, err := l.Take(first, Want{Count: 1})
	require.NoError(t, err)
	began, second := w.clock, w.call("c2", w.spawn(""))
	nothing := func() {}
	seen := func() {
		_, waiters, _, err := l.Read()
		require.NoError(t, err)
		require.Equal(t, []Waiter{{Container: "c2", PID: second.PID, Count: 1, Since: began, Deadline: began.Add(time.Minute)}}, waiters)
	}
	got, err := w.waiting(l, nothing, seen, func() { w.reap(first.PID) }).Take(second, Want{Count: 1, Wait: time.Minute})
	require.NoError(t, err)
	require.Equal(t, []int{0}, got)
	_, waiters, n, err := l.Read()
	require.NoError(t, err)
	require.Empty(t, waiters)
	require.Equal(t, Counters{Granted: 2, Waited: 1, WaitedMS: 600, HeldMS: 600}, n)
}

func TestWaiterIsRefusedAtItsDeadline(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	_, err := l.Take(w.call("c1", w.spawn("")), Want{Count: 1})
	require.NoError(t, err)
	_, err = w.waiting(l).Take(w.call("c2", w.spawn("")), Want{Of: []int{0}, Count: 1, Wait: time.Minute})
	require.EqualError(t, err, "cannot lease 1 GPU: waited 1m0s, as long as gpu-wait allows; 0 of the 1 that the task names are free; 0 (a) is held by container c1 since 22:13:20 UTC (1m); run the task again later, set a longer gpu-wait on the worker")
	_, waiters, n, err := l.Read()
	require.NoError(t, err)
	require.Empty(t, waiters)
	require.Equal(t, Counters{Granted: 1, Timeout: 1}, n)
}

// A waiter that wants much is not starved by those that want little.
func TestNobodyOvertakesInTheQueue(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b")
	first := w.call("c1", w.spawn(""))
	_, err := l.Take(first, Want{Count: 1})
	require.NoError(t, err)
	newcomers := func() {
		_, err := l.Take(w.call("c3", w.spawn("")), Want{Count: 1})
		require.ErrorContains(t, err, "cannot lease 1 GPU: 1 of 2 is free, and 1 came before and waits; 0 (a)")
		_, err = w.waiting(l).Take(w.call("c4", w.spawn("")), Want{Count: 1, Wait: time.Second})
		require.ErrorContains(t, err, "waited 1s")
		w.reap(first.PID)
	}
	got, err := w.waiting(l, newcomers).Take(w.call("c2", w.spawn("")), Want{Count: 2, Wait: time.Minute})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, got)
}

func TestTicketsOfTheDeadAreDropped(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	for i := range 3 {
		w.put(l.path("queue")+"/"+ticketName(i+1), "")
	}
	w.put(l.path("queue")+"/notes", "")
	require.NoError(t, os.Chmod(l.Dir, 0o700))
	_, waiters, _, err := l.Read()
	require.NoError(t, err)
	require.Empty(t, waiters)
	_, err = l.Take(w.call("c1", w.spawn("")), Want{Count: 1})
	require.NoError(t, err)
	entries, err := os.ReadDir(l.path("queue"))
	require.NoError(t, err)
	require.Len(t, entries, 1, "what is no ticket stays")
}

func ticketName(n int) string {
	digits := strconv.Itoa(n)
	return "00000000000000000000"[len(digits):] + digits
}
