package lease

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// numbered gives a process the numbers that the kernel shows of it.
func (w *world) numbered(pid int, below ...int) int {
	text := fmt.Sprintf("Name:\tx\nNSpid:\t%d", pid)
	for _, n := range below {
		text += "\t" + strconv.Itoa(n)
	}
	w.put(w.path("proc", strconv.Itoa(pid), "status"), text+"\nNSsid:\t1\n")
	return pid
}

func TestMembersAreAllInTheNamespaceOfTheNamedInit(t *testing.T) {
	for layout, v2 := range map[string]bool{"v1": false, "v2": true} {
		for _, c := range []struct {
			name   string
			change func(t *testing.T, w *world, init int)
			others int
			wrong  string
		}{
			{"idle", func(*testing.T, *world, int) {}, 0, ""},
			{"its task", func(_ *testing.T, w *world, _ int) { w.numbered(w.spawn("garden/c1"), 7) }, 1, ""},
			{"one that left the control group", func(_ *testing.T, w *world, init int) { w.move(w.numbered(w.fork(init), 8), "garden/c2") }, 1, ""},
			{"a zombie", func(_ *testing.T, w *world, init int) { w.die(w.numbered(w.fork(init), 8)) }, 0, ""},
			{"one from outside in its control group", func(_ *testing.T, w *world, _ int) { w.move(w.numbered(w.spawn("")), "garden/c1") }, 0, ""},
			{"a task's own process 1", func(_ *testing.T, w *world, init int) { w.numbered(w.fork(init), 9, 1) }, 1, ""},
			{"another container", func(_ *testing.T, w *world, _ int) { w.numbered(w.spawn("garden/c12"), 1) }, 0, ""},
			{"another container's init came in", func(_ *testing.T, w *world, _ int) { w.move(w.numbered(w.spawn("garden/c2"), 1), "garden/c1") }, 0, "2 inits"},
			{"init is a zombie", func(_ *testing.T, w *world, init int) { w.die(init) }, 0, "0 inits"},
			{"init is gone", func(_ *testing.T, w *world, init int) { w.reap(init) }, 0, "0 inits"},
			{"this program's own namespace", func(t *testing.T, w *world, init int) {
				require.NoError(t, os.Remove(w.path("proc/self/ns/pid")))
				require.NoError(t, os.Symlink(w.procs[init].space, w.path("proc/self/ns/pid")))
			}, 0, "has no separate pid namespace"},
		} {
			t.Run(c.name+", "+layout, func(t *testing.T) {
				w := newWorld(t, v2)
				l := w.leases()
				w.numbered(w.spawn(""))
				init := w.numbered(w.spawn("garden/c1"), 1)
				c.change(t, w, init)
				inits, err := l.Inits("c1")
				require.NoError(t, err)
				if len(inits) != 1 {
					require.Equal(t, c.wrong, fmt.Sprintf("%d inits", len(inits)))
					return
				}
				require.Equal(t, Process{init, w.procs[init].start}, inits[0])
				others, there, err := l.Members(inits[0])
				if c.wrong != "" {
					require.ErrorContains(t, err, c.wrong)
					return
				}
				require.NoError(t, err)
				require.True(t, there)
				require.Len(t, others, c.others)
				for _, p := range others {
					require.Equal(t, w.procs[p.PID].start, p.Start)
				}
			})
		}
	}
}

func TestMembersBeginWithTheFirst(t *testing.T) {
	w := newWorld(t, true)
	w.pick = func(free []int) int { return free[len(free)-1] } // numbers fall
	init := w.numbered(w.spawn("garden/c1"), 1)
	first, second := w.numbered(w.spawn("garden/c1"), 2), w.numbered(w.spawn("garden/c1"), 3)
	was := Process{init, w.procs[init].start}
	others, there, err := w.leases().Members(was)
	require.NoError(t, err)
	require.True(t, there)
	require.Equal(t, []Process{{first, w.procs[first].start}, {second, w.procs[second].start}}, others)
	w.reap(init)
	_, there, err = w.leases().Members(was)
	require.NoError(t, err)
	require.False(t, there)
}
