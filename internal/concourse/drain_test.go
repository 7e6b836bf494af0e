package concourse

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

var (
	running = resource.UnitState{Load: "loaded", Active: "active", Sub: "running", File: "enabled"}
	gone    = resource.UnitState{Load: "loaded", Active: "inactive", Sub: "dead", File: "disabled"}
)

// draining answers as a systemd with a worker that ends after so many looks.
func draining(t *testing.T, looks int, end string) *hosttest.Runner {
	r := hosttest.NewRunner(t)
	r.On("systemctl show", func(host.Command) (string, error) {
		if looks--; looks < 0 {
			return "Id=" + Unit + "\n" + end, nil
		}
		return "Id=" + Unit + "\nActiveState=active\nSubState=running\n", nil
	})
	return r.Answer("systemctl kill", "").Answer("systemctl stop", "").Answer("systemctl disable", "")
}

func drainWith(t *testing.T, r host.Runner, root host.Root, limit time.Duration) ([]plan.Note, int) {
	slept := 0
	h := host.Host{Root: root, Runner: r, Clock: hosttest.Clock{Slept: func(time.Duration) { slept++ }}}
	d := Drain{State: running, Limit: limit, Why: "the unit is removed", Disrupts: "running tasks"}
	p, err := plan.Diff(context.Background(), h, d)
	require.NoError(t, err)
	for _, s := range p {
		require.Equal(t, "running tasks", s.Disrupts, s.Op)
	}
	notes, err := p.Apply(context.Background(), nil)
	require.NoError(t, err)
	return notes, slept
}

// D18: a worker that goes for good is retired, so that no stalled one stays
// in the web's list.
func TestDrainRetiresThenStops_D18(t *testing.T) {
	for name, end := range map[string]string{
		"ended":      "ActiveState=inactive\nSubState=dead\n",
		"failed":     "ActiveState=failed\nSubState=failed\n",
		"restarting": "ActiveState=activating\nSubState=auto-restart\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := draining(t, 3, end)
			notes, slept := drainWith(t, r, hosttest.Root(t), time.Minute)
			require.Empty(t, notes)
			require.Equal(t, 3, slept)
			require.Equal(t, []string{
				"systemctl kill --kill-whom=main --signal=SIGUSR2 concourse-worker.service",
				"systemctl stop concourse-worker.service",
				"systemctl disable concourse-worker.service",
			}, r.Ran)
		})
	}
}

// D7: tasks that do not end do not hold the hook beyond the limit.
func TestDrainEndsAtItsLimit_D7(t *testing.T) {
	r := draining(t, 1000, "")
	notes, slept := drainWith(t, r, hosttest.Root(t), time.Minute)
	require.Len(t, notes, 1)
	require.ErrorContains(t, notes[0].Err, "did not finish within 1m0s")
	require.Equal(t, 30, slept)
	require.Contains(t, r.Ran, "systemctl stop concourse-worker.service")
}

// The web restarts while the worker retires, such as for the same upgrade: the worker
// registers again, as one that runs, and would take tasks for all of the limit.
func TestDrainSignalIsRepeatedForARestartedWeb(t *testing.T) {
	told := 0
	r := hosttest.NewRunner(t).Answer("systemctl stop", "").Answer("systemctl disable", "")
	r.On("systemctl kill", func(host.Command) (string, error) { told++; return "", nil })
	r.On("systemctl show", func(host.Command) (string, error) {
		if told > 1 {
			return "Id=" + Unit + "\nActiveState=inactive\nSubState=dead\n", nil
		}
		return "Id=" + Unit + "\nActiveState=active\nSubState=running\n", nil
	})
	notes, slept := drainWith(t, r, hosttest.Root(t), 10*time.Minute)
	require.Empty(t, notes)
	require.Equal(t, 2, told)
	require.Equal(t, 16, slept, "30 s and one look more")
}

// The web is removed together with the worker, or has taken its key: the worker can't
// retire, and its builds are given up.
func TestDrainWithoutAWebEndsWhenTheBuildsAreLost(t *testing.T) {
	for name, tt := range map[string]struct {
		linked func(asked int) bool
		limit  time.Duration
		slept  int
		say    string
	}{
		"no web":                {func(int) bool { return false }, time.Hour, 150, "it had no connection to a web for 5m0s"},
		"a web that comes back": {func(asked int) bool { return asked == 9 }, time.Hour, 285, "it had no connection to a web for 5m0s"},
		"a web":                 {func(int) bool { return true }, 20 * time.Minute, 600, "its tasks did not finish within 20m0s"},
		"a short limit":         {func(int) bool { return false }, time.Minute, 30, "its tasks did not finish within 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			r, asked := draining(t, 10000, ""), 0
			r.On("ss --no-header --tcp --numeric state established dport = :2222", func(host.Command) (string, error) {
				if asked++; tt.linked(asked) {
					return "0 0 10.0.0.2:40000 10.0.0.1:2222\n", nil
				}
				return "", nil
			})
			root := hosttest.Root(t)
			hosttest.Put(t, root, EnvFile, "CONCOURSE_TSA_HOST=10.0.0.1:2222,10.0.0.2:2222\n")
			notes, slept := drainWith(t, r, root, tt.limit)
			require.Len(t, notes, 1)
			require.ErrorContains(t, notes[0].Err, tt.say)
			require.Equal(t, tt.slept, slept)
			require.Contains(t, r.Ran, "systemctl stop concourse-worker.service")
		})
	}
}

func TestDrainThatCanNotSignalStopsAllTheSame(t *testing.T) {
	r := draining(t, 0, "").Fail("systemctl kill", 1, "no such process")
	notes, _ := drainWith(t, r, hosttest.Root(t), time.Minute)
	require.Len(t, notes, 1)
	require.Contains(t, r.Ran, "systemctl stop concourse-worker.service")
}

func TestDrainWithoutALimitStopsAtOnce(t *testing.T) {
	r := draining(t, 0, "")
	drainWith(t, r, hosttest.Root(t), 0)
	require.Equal(t, []string{"systemctl stop concourse-worker.service", "systemctl disable concourse-worker.service"}, r.Ran)
}

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

// A privileged task is in its own control group, and may go to another.
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

// A removal goes on, and reports which process to look at.
func TestContainerThatSurvivesItsKillIsReportedAndRetried(t *testing.T) {
	l := newLeaving(t)
	l.deaf = true
	l.container("task", 70, 1000)
	l.process(70, "D", 1000)
	notes := l.apply()
	require.Len(t, notes, 1)
	require.ErrorContains(t, notes[0].Err, "the first process of container task, 70, did not end within 20s of SIGKILL")
	require.Len(t, resourcetest.Ops(t, l.Host, l.drain()), 1)
}

func TestInvalidContainerStateIsAnError(t *testing.T) {
	l := newLeaving(t)
	hosttest.Put(t, l.Root, runcState+"/task/state.json", "{")
	_, err := plan.Diff(context.Background(), l.Host, l.drain())
	require.ErrorContains(t, err, filepath.Join(runcState, "task/state.json"))
}
