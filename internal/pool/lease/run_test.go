package lease

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// runOf returns a new process with an empty control group of its own.
func (w *world) runOf(id string) RunCall {
	pid := w.spawn("")
	group := "gpukit/" + id
	w.groups[group] = []int{}
	w.listGroup(group)
	return RunCall{ID: id, Title: "ada: pytest", PID: pid, Start: w.procs[pid].start, Group: w.groupDir(group)}
}

func TestRunHoldsItsGPUsUntilItsGroupIsEmpty(t *testing.T) {
	for _, v2 := range []bool{false, true} {
		w := newWorld(t, v2)
		l := w.leases("a", "b")
		c := w.runOf("run-1")
		got, err := l.TryForRun(c, Want{Count: 1})
		require.NoError(t, err)
		require.Equal(t, []int{0}, got)
		state := func() State {
			states, _, err := l.Read()
			require.NoError(t, err)
			return states[0]
		}
		require.Equal(t, State{GPU: "a", Held: true, Kind: Run, Container: "run-1", Title: "ada: pytest", Since: w.clock,
			PID: c.PID}, state(),
			"before it is moved into its group")
		w.move(c.PID, "gpukit/run-1")
		child := w.spawn("gpukit/run-1/deep")
		w.reap(c.PID)
		require.True(t, state().Held)
		require.True(t, state().TaskEnded)
		require.Equal(t, "processes that remain of run-1 (ada: pytest)", state().Holder())
		w.reap(child)
		require.False(t, state().Held)
	}
}

func TestRunWithoutAGroupHoldsItsGPUsAsLongAsItsProcess(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	pid := w.spawn("")
	c := RunCall{ID: "run-1", PID: pid, Start: w.procs[pid].start}
	_, err := l.TryForRun(c, Want{Count: 1})
	require.NoError(t, err)
	w.die(pid)
	states, _, err := l.Read()
	require.NoError(t, err)
	require.False(t, states[0].Held)
}

func TestRunWithAGroupThatCannotBeReadIsInDoubt(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	c := w.runOf("run-1")
	_, err := l.TryForRun(c, Want{Count: 1})
	require.NoError(t, err)
	w.reap(c.PID)
	w.put(c.Group+"/cgroup.procs", "junk")
	states, _, err := l.Read()
	require.NoError(t, err)
	require.True(t, states[0].Held)
	require.Contains(t, states[0].Doubt, "cannot see the processes of "+c.Group)
}

func TestRunIsRefusedWhatOthersHold(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b")
	_, err := l.TryForRun(w.runOf("run-1"), Want{Count: 1})
	require.NoError(t, err)
	require.NoError(t, l.HoldForPod("ns/pod/main", []int{1}, nil))
	_, err = l.TryForRun(w.runOf("run-2"), Want{Count: 1})
	require.EqualError(t, err,
		"cannot lease 1 GPU: 0 of 2 are free; 0 (a) is held by run-1 (ada: pytest) since 22:13:20 UTC (0s), "+
			"1 (b) is held by pod ns/pod, container main since 22:13:20 UTC (0s; see kubectl --namespace ns get pod pod)")
	_, err = l.TryForRun(w.runOf("run-3"), Want{Count: 3})
	require.EqualError(t, err, "cannot lease 3 GPUs: this machine has 2; request fewer with --gpus")
	_, err = l.Take(w.call("c1", w.spawn("")), Want{Count: 1})
	require.ErrorContains(t, err, "is held by run-1 (ada: pytest)")
	var refused *Refusal
	require.ErrorAs(t, l.HoldForPod("ns/other/main", []int{0}, nil), &refused)
}

func TestRunMustNameItsProcess(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	for problem, change := range map[string]func(*RunCall){
		"has ended":            func(c *RunCall) { c.Start++ },
		"names no process":     func(c *RunCall) { c.PID = 0 },
		"is not a plain word":  func(c *RunCall) { c.ID = "../x" },
		"not an absolute path": func(c *RunCall) { c.Group = "x" },
		"has 201 bytes":        func(c *RunCall) { c.Title = strings.Repeat("x", 201) },
	} {
		c := w.runOf("run-1")
		change(&c)
		_, err := l.TryForRun(c, Want{Count: 1})
		require.ErrorContains(t, err, problem)
	}
}

func TestEndedRunGivesItsGPUsBackAtOnce(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b", "c")
	_, err := l.TryForRun(w.runOf("run-1"), Want{Count: 2})
	require.NoError(t, err)
	_, err = l.TryForRun(w.runOf("run-2"), Want{Count: 1})
	require.NoError(t, err)
	w.clock = w.clock.Add(time.Second)
	require.NoError(t, l.EndRun("run-1"))
	states, n, err := l.Read()
	require.NoError(t, err)
	require.Equal(t, []bool{false, false, true}, []bool{states[0].Held, states[1].Held, states[2].Held})
	require.Equal(t, uint64(2000), n.HeldMS)
}

func TestProcessesThatRemainOfARunAreEnded(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	c := w.runOf("run-1")
	_, err := l.TryForRun(c, Want{Count: 1})
	require.NoError(t, err)
	w.move(c.PID, "gpukit/run-1")
	child := w.spawn("gpukit/run-1")
	var sent []unix.Signal
	look := func(after time.Duration) {
		w.clock = w.clock.Add(after)
		_, err := l.EndRemaining(func(p Process, s unix.Signal) error {
			require.Equal(t, Process{child, w.procs[child].start}, p)
			if sent = append(sent, s); s == unix.SIGKILL {
				w.die(child)
			}
			return nil
		})
		require.NoError(t, err)
	}
	look(time.Minute)
	require.Empty(t, sent, "its process runs")
	w.reap(c.PID)
	look(0)
	look(4 * time.Second)
	require.Empty(t, sent)
	look(2 * time.Second)
	look(5 * time.Second)
	require.Equal(t, []unix.Signal{unix.SIGTERM, unix.SIGKILL}, sent)
	states, _, err := l.Read()
	require.NoError(t, err)
	require.False(t, states[0].Held)
}
