//go:build e2e

package run

import (
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/runend"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// leasedGPU is one of the fixture's.
const leasedGPU = "0000:43:00.0"

// recorded is a machine with the kernel's own processes and control groups, and the fixture's GPUs.
type recorded struct {
	t      *testing.T
	root   host.Root
	leases lease.Leases
	rec    *recorder.Recorder
	lines  []string // of the kernel's log, that come next
}

// Read plays the kernel's log.
func (m *recorded) Read(p []byte) (int, error) {
	if len(m.lines) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.lines[0])
	m.lines = m.lines[1:]
	return n, nil
}

func newRecorded(t *testing.T) *recorded {
	t.Parallel()
	return recordedOn(t, hosttest.Host(t, "mi210x4"))
}

// recordedOn makes the recorder of a machine.
func recordedOn(t *testing.T, root host.Root) *recorded {
	m := &recorded{t: t, root: root}
	m.leases = lease.Leases{Dir: m.root.Path(lease.DefaultDir), GPUs: []string{leasedGPU}}
	m.rec = suite.Recorder(t, root, m)
	return m
}

// say adds a line to the kernel's log.
func (m *recorded) say(text string) {
	m.lines = append(m.lines, fmt.Sprintf("4,1,%d,-;%s\n", time.Minute.Microseconds(), text))
}

// groups makes the control groups of a run: one of version 2, and one that limits its memory.
func (m *recorded) groups(id string, memory int) (group string, all []string) {
	tree, err := rungroup.Find()
	require.NoError(m.t, err)
	group, err = rungroup.Make(tree.Mount, id)
	require.NoError(m.t, err)
	all = []string{group}
	limit := filepath.Join(group, "memory.max")
	if _, err := os.Stat(limit); err != nil { // the controller is in the other version
		dir := filepath.Join("/sys/fs/cgroup/memory", filepath.Base(group))
		require.NoError(m.t, os.Mkdir(dir, 0o755))
		all, limit = append(all, dir), filepath.Join(dir, "memory.limit_in_bytes")
	}
	if memory > 0 {
		require.NoError(m.t, os.WriteFile(limit, fmt.Append(nil, memory), 0o644))
	}
	m.t.Cleanup(func() {
		for _, dir := range all {
			require.Eventually(m.t, func() bool { return errors.Is(os.Remove(dir), os.ErrNotExist) }, eventually, tick)
		}
	})
	return group, all
}

// run leases the GPU to a shell that runs a script, and does what the lease service does at its
// end. memory is the limit of its control groups, 0 for none; -1 makes no group. during is called
// after the recorder has seen the run.
func (m *recorded) run(script string, memory int, during func(*recorded)) (taskrecord.Record, verdict.Summary) {
	m.t.Helper()
	id := fmt.Sprintf("run-%012x", rand.Int63n(1<<48))
	group := ""
	// It waits for a line until it is in its groups.
	c := exec.Command("sh", "-c", "read line; "+script)
	stdin, err := c.StdinPipe()
	require.NoError(m.t, err)
	require.NoError(m.t, c.Start())
	m.t.Cleanup(func() { _ = c.Process.Kill() })
	if memory >= 0 {
		var all []string
		group, all = m.groups(id, memory)
		for _, dir := range all {
			require.NoError(m.t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, c.Process.Pid), 0))
		}
	}
	began := time.Now()
	_, err = m.leases.TryForRun(lease.RunCall{ID: id, Title: "ada: test", PID: c.Process.Pid,
		Start: process(m.t, c.Process.Pid).Start,
		Group: group}, lease.Want{Count: 1})
	require.NoError(m.t, err)
	require.NoError(m.t, m.rec.Look(m.t.Context()))
	_, err = stdin.Write([]byte("go\n"))
	require.NoError(m.t, err)
	if during != nil {
		during(m)
	}
	done := make(chan int, 1)
	go func() {
		_ = c.Wait()
		status := c.ProcessState.Sys().(interface{ Signal() unix.Signal })
		if s := status.Signal(); s > 0 {
			done <- 128 + int(s)
			return
		}
		done <- c.ProcessState.ExitCode()
	}()
	store := taskrecord.Store{Dir: m.root.Path(taskrecord.DefaultDir)}
	for limit := time.Now().Add(eventually); !store.Ended(id); {
		require.True(m.t, time.Now().Before(limit), "the record does not end")
		require.NoError(m.t, m.rec.Look(m.t.Context()))
		select {
		case exit := <-done:
			require.NoError(m.t, m.leases.EndRun(id))
			require.NoError(m.t, (&runend.Writer{Root: m.root}).Add(runend.End{ID: id, Title: "ada: test",
				GPUs:    []string{leasedGPU},
				Started: began, Ended: time.Now(), Exit: &exit}))
		case <-time.After(100 * time.Millisecond):
		}
	}
	require.NoError(m.t, m.rec.Look(m.t.Context()))
	f, err := store.Find(id)
	require.NoError(m.t, err)
	r, err := f.Read()
	require.NoError(m.t, err)
	s, err := verdict.WaitForSummary(m.t.Context(), m.root, id)
	require.NoError(m.t, err)
	return r, s
}

func TestRunsHaveVerdicts(t *testing.T) {
	need(t)
	for name, c := range map[string]struct {
		script string
		memory int
		during func(m *recorded)
		kind   verdict.Kind
		code   string
	}{
		"killed at its limit of memory": {script: `x=$(head -c 200000000 /dev/zero | tr '\0' x); echo ${#x}`,
			memory: 64 << 20,
			kind:   verdict.Run, code: "oom-limit"},
		"ends with a fault of its GPU": {script: "sleep 2; exit 1", during: func(m *recorded) {
			m.say("amdgpu " + leasedGPU + ": amdgpu: GPU reset(1) succeeded!")
		}, kind: verdict.GPU, code: "gpu-hang"},
		"ended by its user": {script: "timeout -s TERM 7 sleep 100; kill -TERM $$", during: func(m *recorded) {
			require.NoError(m.t, os.WriteFile(m.root.Path("/sys/bus/pci/devices/"+leasedGPU+"/gpu_busy_percent"),
				[]byte("0\n"), 0))
		}, kind: verdict.Run, code: "stopped-idle"},
		"succeeds": {script: "true"},
		"without a control group": {script: `sh -c 'i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done'; exit 3`, memory: -1,
			kind: verdict.Run, code: "exit-status"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newRecorded(t)
			r, s := m.run(c.script, c.memory, c.during)
			t.Logf("%s; last %v", s.Why(), r.Machine[len(r.Machine)-1])
			require.Equal(t, c.kind, s.Kind)
			require.Equal(t, []string{leasedGPU}, s.GPUs)
			require.Equal(t, "ada: test", s.Title)
			require.NotEmpty(t, r.GPUs[leasedGPU])
			if c.kind != "" {
				require.Equal(t, c.code, s.Reasons[0].Code)
			}
			if c.code == "exit-status" {
				require.Positive(t, taskrecord.Growth(r.Machine, taskrecord.CPUUsage))
				require.Positive(t, r.Machine[1].Value(taskrecord.MemoryUsed))
			}
		})
	}
}

// A failed run shows its verdict, though its client still has the lease.
func TestFailedRunShowsItsVerdict(t *testing.T) {
	m := newMachine(t)
	suite.Record(t, recordedOn(t, m.root).rec)
	r := m.run("run", "--name", "a test", "--", "sh", "-c", "exit 3")
	require.Equal(t, 3, r.status)
	require.Regexp(t, `\ngpukit: verdict run: .*3`, r.stderr)
}

// A user without root reads the record of a run inside of it, without lines about others.
func TestUserReadsTheRecordOfOwnRun(t *testing.T) {
	m := newMachine(t)
	suite.Record(t, recordedOn(t, m.root).rec)
	r := m.end(m.command(ada, "run", "--name", "a test", "--", "sh", "-c",
		`until "$0" why "$GPUKIT_RUN"; do sleep 0.1; done; echo "$GPUKIT_RUN"`, gpukit))
	require.Equal(t, 0, r.status, r.stderr)
	require.Regexp(t, `^run run-[0-9a-f]{12} \(a test\) from .*, running\n`, r.out)
	require.Contains(t, r.out, "kernel's log: run it with sudo to see lines about others\n")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	run := lines[len(lines)-1]
	r = m.end(m.command(ada, "run", "--", gpukit, "why", run))
	require.Equal(t, 1, r.status, "another run")
	require.Contains(t, r.stderr, "only root can read the records")
}

// A run that ended while there was no service has an end with all its GPUs, though another
// holder has one of them since.
func TestEndOfARunWithoutAServiceHasAllItsGPUs(t *testing.T) {
	m := newMachine(t)
	_, end := m.background(0, "--gpus", "2", "--name", "a test")
	var gpus []string
	var id string
	for _, s := range m.states() {
		if s.Held {
			gpus, id = append(gpus, s.GPU), s.Container
		}
	}
	require.Len(t, gpus, 2)
	m.kill()
	groups, err := rungroup.Find()
	require.NoError(t, err)
	all, err := groups.All()
	require.NoError(t, err)
	at := slices.IndexFunc(all, func(dir string) bool { return filepath.Base(dir) == "gpukit-"+id })
	require.GreaterOrEqual(t, at, 0)
	require.NoError(t, os.WriteFile(filepath.Join(all[at], "cgroup.kill"), []byte("1"), 0))
	end()
	l := lease.Leases{Dir: m.root.Path(lease.DefaultDir), GPUs: gpus, Euid: uint32(os.Geteuid())}
	require.NoError(t, l.HoldForPod("n/p/main", []int{0}, nil))
	m.start()
	m.until("the end of the run", func() bool {
		ends, err := runend.File.Read(m.root)
		return err == nil && len(ends.Ends) == 1
	})
	ends, err := runend.File.Read(m.root)
	require.NoError(t, err)
	require.Equal(t, gpus, ends.Ends[0].GPUs)
	require.NoError(t, l.ReleasePod([]int{0}))
}
