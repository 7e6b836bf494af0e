package concourse

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/testutil/hosttest"
	"concourse-ci-machine/internal/testutil/resourcetest"
)

// leaving is a machine on which a worker was, and the numbers that were killed.
type leaving struct {
	host.Host
	t      *testing.T
	killed []int
	deaf   bool // what is killed stays, as in a driver that hangs
}

func newLeaving(t *testing.T) *leaving {
	return &leaving{Host: host.Host{Root: hosttest.Root(t), Runner: hosttest.NewRunner(t), Clock: hosttest.Clock{}}, t: t}
}

func (l *leaving) process(pid int, state string, start int) {
	hosttest.Put(l.t, l.Root, fmt.Sprintf("/proc/%d/stat", pid),
		fmt.Sprintf("%d (a ) b) %s 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 18 %d 20 21", pid, state, start))
}

func (l *leaving) container(id string, pid, start int) {
	hosttest.Put(l.t, l.Root, runcState+"/"+id+"/state.json", fmt.Sprintf(`{"id":%q,"init_process_pid":%d,"init_process_start":%d,"more":[]}`, id, pid, start))
}

func (l *leaving) drain() Drain {
	return Drain{State: gone, Why: "the unit is removed", Disrupts: "running tasks", Kill: func(pid int) error {
		l.killed = append(l.killed, pid)
		if l.deaf {
			return nil
		}
		return os.RemoveAll(l.Path(fmt.Sprintf("/proc/%d", pid)))
	}}
}

func (l *leaving) apply() []plan.Note {
	l.t.Helper()
	p, err := plan.Diff(context.Background(), l.Host, l.drain())
	require.NoError(l.t, err)
	for _, s := range p {
		require.Equal(l.t, "running tasks", s.Disrupts, s.Op)
	}
	notes, err := p.Apply(context.Background(), nil)
	require.NoError(l.t, err)
	return notes
}

// A privileged task is in a control group of its own, and may go to another.
func TestContainersAreEndedWhateverTheirControlGroup(t *testing.T) {
	l := newLeaving(t)
	l.container("task", 70, 1000)
	l.process(70, "S", 1000)
	l.container("other", 71, 1000)
	l.process(71, "S", 2000) // another process has the number now
	l.container("over", 72, 1000)
	l.process(72, "Z", 1000)
	l.container("past", 73, 1000)
	l.container("broken", 1, 5)
	l.process(1, "S", 5)
	require.Equal(t, []string{"end the containers of concourse-worker.service"}, resourcetest.Ops(t, l.Host, l.drain()))
	require.Empty(t, l.apply())
	require.Equal(t, []int{70}, l.killed)
	require.Empty(t, resourcetest.Ops(t, l.Host, l.drain()))
}

func TestShimsAreEndedOnBothCgroupVersions(t *testing.T) {
	for _, group := range unitGroups {
		l := newLeaving(t)
		hosttest.Put(t, l.Root, group+"/cgroup.procs", "80\n81\n")
		l.process(80, "S", 1)
		l.process(81, "R", 1)
		require.Empty(t, l.apply())
		require.Equal(t, []int{80, 81}, l.killed, group)
		require.Empty(t, resourcetest.Ops(t, l.Host, l.drain()))
	}
}

// A removal goes on, and says which process to look at.
func TestContainerThatSurvivesItsKillIsToldAndTriedAgain(t *testing.T) {
	l := newLeaving(t)
	l.deaf = true
	l.container("task", 70, 1000)
	l.process(70, "D", 1000)
	notes := l.apply()
	require.Len(t, notes, 1)
	require.ErrorContains(t, notes[0].Err, "the first process of container task, 70, does not end within 20s of SIGKILL")
	require.Len(t, resourcetest.Ops(t, l.Host, l.drain()), 1)
}

func TestStateOfAContainerThatIsNoJSONIsAnError(t *testing.T) {
	l := newLeaving(t)
	hosttest.Put(t, l.Root, runcState+"/task/state.json", "{")
	_, err := plan.Diff(context.Background(), l.Host, l.drain())
	require.ErrorContains(t, err, filepath.Join(runcState, "task/state.json"))
}
