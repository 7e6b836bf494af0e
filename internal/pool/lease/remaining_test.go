package lease

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// child makes a process the child of another one: 0 is outside of what /proc shows.
func (w *world) child(pid, parent int) int {
	path := w.path("proc", strconv.Itoa(pid), "stat")
	text, err := os.ReadFile(path)
	require.NoError(w.t, err)
	before, after, _ := strings.Cut(string(text), ") S ")
	_, after, _ = strings.Cut(after, " ")
	w.put(path, before+") S "+strconv.Itoa(parent)+" "+after)
	return pid
}

// execs starts a process by exec, as the shim does, with a pid that is in this file.
func (w *world) execs(c Call, shim int, file string) int {
	pid := w.child(w.spawn("garden/"+c.Container), shim)
	w.put(c.Bundle+"/"+file, strconv.Itoa(pid))
	return pid
}

// running is a container with a GPU, its shim outside and its task's own process.
func (w *world) running(l Leases, c Call, wants int) (init, shim, task int) {
	t := w.t
	_, err := l.Take(c, Want{Count: wants})
	require.NoError(t, err)
	init = w.up(c)
	shim = w.spawn("")
	enter := c
	enter.PID = w.spawn("")
	require.NoError(t, l.Enter(enter, []int{0, 1}[:wants]))
	task = w.execs(c, shim, "task.pid")
	w.reap(enter.PID)
	return init, shim, task
}

// signals records the signals of EndRemaining and ends killed processes.
func (w *world) signals(sent *[]string) func(Process, unix.Signal) error {
	return func(p Process, sig unix.Signal) error {
		*sent = append(*sent, unix.SignalName(sig)+" "+strconv.Itoa(p.PID))
		if w.procs[p.PID] == nil || w.procs[p.PID].start != p.Start {
			return unix.ESRCH
		}
		if sig == unix.SIGKILL {
			w.reap(p.PID)
		}
		return nil
	}
}

func TestRemainingProcessesOfAnEndedTaskAreEnded(t *testing.T) {
	for layout, v2 := range map[string]bool{"v1": false, "v2": true} {
		t.Run(layout, func(t *testing.T) {
			w := newWorld(t, v2)
			l := w.leases("a", "b")
			c := w.call("c1", w.spawn(""))
			init, shim, task := w.running(l, c, 2)
			left := w.child(w.fork(task), task)
			var sent []string
			look := func(after time.Duration) []Remnant {
				t.Helper()
				w.clock = w.clock.Add(after)
				done, err := l.EndRemaining(w.signals(&sent))
				require.NoError(t, err)
				return done
			}
			for range 4 {
				require.Empty(t, look(time.Hour), "its task runs")
			}
			w.reap(task)
			require.NoError(t, os.Remove(c.Bundle+"/task.pid")) // as the shim does
			w.child(left, init)
			away := w.child(w.fork(left), left) // as a privileged one: out of the control group
			w.child(w.fork(left), away)
			w.move(away, "garden/elsewhere")
			states, _, err := l.Read()
			require.NoError(t, err)
			require.True(t, states[0].TaskEnded)
			require.Equal(t, "the ended task of container c1", states[0].Holder())

			require.Empty(t, look(0), "seen for the first time")
			require.Empty(t, look(termDelay-time.Second))
			require.Empty(t, sent)
			require.Equal(t, []Remnant{{"c1", []string{"a", "b"}, 3, unix.SIGTERM}}, look(time.Second))
			require.Len(t, sent, 3)
			w.clock = w.clock.Add(-time.Hour)
			require.Empty(t, look(0), "the clock was set back: the time is noted again")
			require.Equal(t, []Remnant{{"c1", []string{"a", "b"}, 3, unix.SIGKILL}}, look(killDelay))
			require.Len(t, sent, 6)
			require.NotNil(t, w.procs[init], "fly intercept can still enter the container")
			require.NotNil(t, w.procs[shim])
			states, _, err = l.Read()
			require.NoError(t, err)
			require.False(t, states[0].Held)
			require.False(t, states[0].TaskEnded)
			require.Empty(t, look(time.Hour))
		})
	}
}

func TestProcessesThatForkWhileTheyAreKilledAreKilledToo(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	init, _, task := w.running(l, w.call("c1", w.spawn("")), 1)
	w.child(w.fork(task), init)
	w.reap(task)
	var sent []string
	forks := 3
	kill := w.signals(&sent)
	signal := func(p Process, sig unix.Signal) error {
		if forks--; forks >= 0 {
			w.child(w.fork(p.PID), init)
		}
		return kill(p, sig)
	}
	_, err := l.EndRemaining(signal)
	require.NoError(t, err)
	w.clock = w.clock.Add(killDelay)
	_, err = l.EndRemaining(signal)
	require.NoError(t, err)
	require.Len(t, sent, 4)
	states, _, err := l.Read()
	require.NoError(t, err)
	require.False(t, states[0].Held)
}

func TestSessionProtectsTheProcessesOfItsContainer(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, l Leases, c Call, init, shim, task int)
		ended  bool // for those who ask for its GPU
	}{
		"the task": {func(w *world, _ Leases, _ Call, _, _, task int) { w.child(w.fork(task), task) }, false},
		"the task in this namespace's background": {func(w *world, _ Leases, _ Call, _, _, task int) { w.child(task, 0) }, false},
		"fly intercept after the task": {func(w *world, _ Leases, c Call, init, shim, task int) {
			w.child(w.fork(init), init)
			w.execs(c, shim, "random.pid")
			w.reap(task)
		}, true},
		"fly intercept that begins": {func(w *world, l Leases, c Call, init, _, task int) {
			w.child(w.fork(init), init)
			w.reap(task)
			c.PID = w.spawn("")
			require.NoError(w.t, l.Enter(c, []int{0}))
		}, false},
		"an orphan with the number of the task": {func(w *world, _ Leases, c Call, init, shim, task int) {
			w.reap(task)
			w.put(c.Bundle+"/task.pid", strconv.Itoa(w.child(w.fork(init), init)))
			w.execs(c, shim, "random.pid")
		}, true},
		"the task, whose file nobody wrote": {func(w *world, _ Leases, c Call, _, _, task int) {
			w.child(w.fork(task), task)
			require.NoError(w.t, os.Remove(c.Bundle+"/task.pid"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			l := w.leases("a")
			call := w.call("c1", w.spawn(""))
			init, shim, task := w.running(l, call, 1)
			c.change(w, l, call, init, shim, task)
			for range 4 {
				w.clock = w.clock.Add(killDelay)
				done, err := l.EndRemaining(func(Process, unix.Signal) error { return errors.New("somebody is ended") })
				require.NoError(t, err)
				require.Empty(t, done)
			}
			asks := w.call("c2", w.spawn(""))
			_, err := l.Take(asks, Want{Count: 1})
			var refused *Refusal
			require.ErrorAs(t, err, &refused)
			require.Equal(t, c.ended, refused.TaskEnded())
			if c.ended {
				require.Contains(t, err.Error(), "is held by the ended task of container c1 since ")
				require.Contains(t, err.Error(), "; "+RunAgain)
				require.NotContains(t, err.Error(), " later")
			} else {
				require.NotContains(t, err.Error(), RunAgain)
			}
		})
	}
}

func TestProcessThatCannotBeEndedIsReported(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	init, _, task := w.running(l, w.call("c1", w.spawn("")), 1)
	w.child(w.fork(task), init)
	w.reap(task)
	signal := func(Process, unix.Signal) error { return unix.EPERM }
	_, err := l.EndRemaining(signal)
	require.NoError(t, err)
	w.clock = w.clock.Add(termDelay)
	_, err = l.EndRemaining(signal)
	require.ErrorIs(t, err, unix.EPERM)
}

// A process with a parent that is just ending has another parent at the next look. If it
// counted as one from outside, its task would count as running, and the next task be
// refused.
func TestOrphanOfAnEndingParentIsNotATask(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	init, _, _ := w.running(l, w.call("c1", w.spawn("")), 1)
	s, err := l.searchOf(init)
	require.NoError(t, err)
	parents := []int{4_000_000, init} // no one has the first number
	outside, err := s.outside(func() (parent int, err error) {
		parent, parents = parents[0], parents[1:]
		return parent, nil
	})
	require.NoError(t, err)
	require.False(t, outside)
	require.Empty(t, parents)
}
