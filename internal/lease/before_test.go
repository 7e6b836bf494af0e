package lease

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// upgraded are the GPUs at these places as a version leases them that was
// upgraded to, and as the one before, which went by index, did.
func (w *world) upgraded(places ...string) (now, before Leases) {
	indexes := []string{"0", "1", "2"}[:len(places)]
	now, before = w.leases(places...), w.leases(indexes...)
	now.Before = indexes
	return now, before
}

// A GPU that was leased before an upgrade is not free after it, and a program of
// before that still runs takes none that was leased since.
func TestVersionsSideBySideLeaseNoGPUTwice(t *testing.T) {
	w := newWorld(t, true)
	now, before := w.upgraded("0000:03:00.0", "0000:0a:00.0")
	old := w.call("old", w.spawn(""))
	got, err := before.Take(old, Want{Count: 1, Of: []int{1}})
	require.NoError(t, err)
	states, _, err := now.Read()
	require.NoError(t, err)
	require.Equal(t, []State{{GPU: "0000:03:00.0"}, {GPU: "0000:0a:00.0", Held: true, Container: "old", Since: w.clock}}, states)

	recent := w.call("recent", w.spawn(""))
	got, err = now.Take(recent, Want{Count: 1})
	require.NoError(t, err)
	require.Equal(t, []int{0}, got, "the other one")
	for _, l := range []Leases{now, before} {
		_, err = l.Take(w.call("third", w.spawn("")), Want{Count: 1})
		require.ErrorContains(t, err, "0 of 2 are free")
	}
	w.reap(old.PID)
	w.reap(recent.PID)
	for _, l := range []Leases{before, now} { // the older one first
		got, err = l.Take(w.call("fourth", w.spawn("")), Want{Count: 1})
		require.NoError(t, err)
		require.Equal(t, []int{0}, got)
		_, err = now.Release(0, false)
		require.ErrorContains(t, err, "is held by container fourth")
		_, err = now.Release(0, true)
		require.NoError(t, err)
	}
	_, err = before.Take(w.call("fifth", w.spawn("")), Want{Count: 2})
	require.NoError(t, err, "both names are free")
}

// An index is another GPU's when one in front of it goes away.
func TestLeaseOfBeforeStaysWithItsGPUWhenTheIndexMoves(t *testing.T) {
	w := newWorld(t, true)
	now, before := w.upgraded("0000:03:00.0", "0000:0a:00.0")
	_, err := before.Take(w.call("old", w.spawn("")), Want{Count: 1, Of: []int{1}})
	require.NoError(t, err)
	_, err = now.Take(w.call("recent", w.spawn("")), Want{Count: 2})
	require.ErrorContains(t, err, "is held by container old")
	moved, _ := w.upgraded("0000:0a:00.0")
	_, err = moved.Take(w.call("recent", w.spawn("")), Want{Count: 1})
	require.ErrorContains(t, err, "is held by container old")
}

func TestContainerIsNotLetInAgainToWhatItsUnitLeasesNoMore(t *testing.T) {
	w := newWorld(t, true)
	_, before := w.upgraded("0000:03:00.0")
	c := w.call("old", w.spawn(""))
	_, err := before.Take(c, Want{Count: 1})
	require.NoError(t, err)
	w.up(c)
	exec := w.call("old", w.spawn(""))
	exec.Final = true
	require.NoError(t, before.Enter(exec, []int{0}), "its task is still to come")
	w.reap(exec.PID)
	exec.PID = w.spawn("")
	require.ErrorContains(t, before.Enter(exec, []int{0}), "cannot enter container old, which has GPUs of its own: its task has ended, and the unit does not lease these GPUs any more; run the task again")
}
