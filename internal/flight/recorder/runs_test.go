package recorder_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/procfile"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/runend"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

const (
	aRun   = "run-4f1c0a2b91d3"
	runPID = 5000
	group  = "/sys/fs/cgroup/system.slice/runner.service/gpukit-" + aRun
)

// gpuRun is a run with a GPU, in its own control group.
type gpuRun struct {
	*world
	id    string
	since time.Time
}

func (w *world) leases() lease.Leases {
	return lease.Leases{Dir: w.root.Path(lease.DefaultDir), GPUs: []string{gpu0, gpu1}, Proc: w.root.Path("/proc"),
		Cgroup: w.root.Path("/sys/fs/cgroup"), Euid: uint32(os.Geteuid()), Now: func() time.Time { return w.now }}
}

// lease starts a run on GPU 1. inGroup is the path of its group, "" without control groups of version 2.
func (w *world) lease(id, inGroup string) *gpuRun {
	w.t.Helper()
	w.process(runPID)
	w.put(fmt.Sprintf("/proc/%d/cgroup", runPID), "0::"+inGroup+"\n")
	stat, err := w.root.ReadText(fmt.Sprintf("/proc/%d/stat", runPID))
	require.NoError(w.t, err)
	p, err := procfile.ParseStat(stat)
	require.NoError(w.t, err)
	require.NoError(w.t, os.MkdirAll(w.root.Path("/run/concourse-ci-machine"), 0o755))
	c := lease.RunCall{ID: id, Title: "ada: pytest", PID: runPID, Start: p.Start}
	got, err := w.leases().TryForRun(c, lease.Want{Count: 1, Of: []int{1}})
	require.NoError(w.t, err)
	require.Equal(w.t, []int{1}, got)
	return &gpuRun{w, id, w.now}
}

// ends ends the run's process, as the lease service reports it. exit -1 is not known.
func (r *gpuRun) ends(exit int) {
	r.t.Helper()
	r.kill(runPID)
	require.NoError(r.t, r.leases().EndRun(r.id))
	e := runend.End{ID: r.id, Title: "ada: pytest", GPUs: []string{gpu1}, Started: r.since, Ended: r.now,
		Clocks: "profile_standard", ClocksInvalid: "it was throttled: ppt"}
	if exit >= 0 {
		e.Exit = &exit
	}
	require.NoError(r.t, (&runend.Writer{Root: r.root}).Add(e))
}

func (r *gpuRun) counts(cpu, memory int) {
	r.put(group+"/cgroup.procs", fmt.Sprintf("%d\n", runPID))
	r.put(group+"/cpu.stat", fmt.Sprintf("usage_usec %d\n", cpu))
	r.put(group+"/memory.current", fmt.Sprintf("%d\n", memory))
}

func TestRunThatFailsHasARecordAndAVerdict(t *testing.T) {
	w := newWorld(t)
	r := w.lease(aRun, "/system.slice/runner.service/gpukit-"+aRun)
	r.counts(0, gib)
	seconds := 0
	w.run(30*time.Second, func() { seconds++; r.counts(seconds*1_500_000, gib) })
	r.ends(1)
	w.run(time.Second)

	report, err := verdict.ReportFile(verdict.ReportPath).Read(w.root)
	require.NoError(t, err)
	require.Equal(t, aRun, report.Entries[0].Handle, "the report has the verdict at once")
	require.Empty(t, w.counts(), "and counts it when it is sure")

	w.run(20 * time.Second)
	one, v := w.verdict(aRun)
	require.Equal(t, lease.Run, one.Head.Kind)
	require.Equal(t, "ada: pytest", one.Head.Title)
	require.Equal(t, start, one.Head.Started)
	require.Equal(t, []string{gpu1}, []string{one.Head.GPUs[0].Name})
	require.InDelta(t, 45e6, taskrecord.Growth(one.Machine, taskrecord.CPUUsage), 10e6)
	require.NotEmpty(t, one.GPUs[gpu1])
	require.Equal(t, 1, *one.End.Exit)
	require.Equal(t, &taskrecord.Clocks{Level: "profile_standard", Invalid: "it was throttled: ppt"}, one.End.Clocks)
	require.Equal(t, verdict.Run, v.Kind)
	w.now = w.now.Add(10 * time.Minute) // late signs
	w.run(10 * time.Second)
	require.Equal(t, map[string]uint64{"run": 1}, w.counts())
	report, err = verdict.ReportFile(verdict.ReportPath).Read(w.root)
	require.NoError(t, err)
	require.Len(t, report.Entries, 1)
}

func TestRunThatNobodySawHasARecord(t *testing.T) {
	w := newWorld(t)
	w.lease(aRun, "/").ends(3)
	w.run(20 * time.Second)
	one, v := w.verdict(aRun)
	require.Equal(t, verdict.Run, v.Kind)
	require.Equal(t, gpu1, one.Head.GPUs[0].Name)
	require.Empty(t, one.Machine)
}

func TestRunGoesOnInItsRecordAfterARestartOfTheRecorder(t *testing.T) {
	w := newWorld(t)
	r := w.lease(aRun, "/")
	w.run(10 * time.Second)
	require.NoError(t, w.rec.Close())
	w.now = w.now.Add(time.Minute)
	r.ends(0)
	w.start()
	w.run(20 * time.Second)
	one, v := w.verdict(aRun)
	require.Empty(t, v.Kind)
	require.Equal(t, start.Add(70*time.Second), one.End.Ended)
	require.Equal(t, taskrecord.Resumed, one.Events[0].Kind)
}

// A run without an exit status failed only if there is a sign of it.
func TestRunWithoutAnExitStatusIsJudgedByItsSigns(t *testing.T) {
	for _, c := range []struct {
		name, line string
		kind       verdict.Kind
	}{
		{"no sign", "", ""},
		{"GPU was reset", "amdgpu " + gpu1 + ": amdgpu: GPU reset(2) succeeded!", verdict.GPU},
	} {
		w := newWorld(t)
		r := w.lease(aRun, "/")
		w.run(10 * time.Second)
		if c.line != "" {
			w.say(c.line)
		}
		w.run(2 * time.Second)
		r.ends(-1)
		w.run(40 * time.Second)
		one, v := w.verdict(aRun)
		require.Equal(t, c.kind, v.Kind, c.name)
		require.Equal(t, c.kind != "", one.Failed(), c.name)
		want := map[string]uint64{}
		if c.kind != "" {
			want["gpu"] = 1
		}
		w.now = w.now.Add(10 * time.Minute) // late signs
		w.run(10 * time.Second)
		require.Equal(t, want, w.counts(), c.name)
	}
}

// The limit of a runner's service kills processes of its runs. Their own groups have none.
func TestOOMKillOfTheRunnersLimitIsOfTheRun(t *testing.T) {
	w := newWorld(t)
	r := w.lease(aRun, "/system.slice/runner.service/gpukit-"+aRun)
	r.counts(0, gib)
	w.run(20 * time.Second)
	w.say("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/system.slice/runner.service," +
		"task_memcg=/system.slice/runner.service,task=pytest,pid=5000,uid=1000")
	w.say("Memory cgroup out of memory: Killed process 5000 (pytest) total-vm:1kB")
	w.run(time.Second)
	r.ends(137)
	w.run(40 * time.Second)
	_, v := w.verdict(aRun)
	require.Equal(t, "oom-outside", v.Reasons[0].Code)
}
