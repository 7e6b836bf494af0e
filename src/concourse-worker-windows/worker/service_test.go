//go:build !windows

package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestLogIsBounded(t *testing.T) {
	l := &logFile{path: filepath.Join(t.TempDir(), "worker.log"), max: 100}
	for i := range 50 {
		_, err := fmt.Fprintf(l, "line %d\n", i)
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	kept := ""
	for _, path := range []string{oldLog(l.path), l.path} {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.LessOrEqual(t, len(data), 100)
		kept += string(data)
	}
	require.True(t, strings.HasSuffix(kept, "line 48\nline 49\n"), kept)
	for n, want := range map[int64]string{3: "48\n", 9: "\nline 48\n"} {
		data, err := tail(oldLog(l.path), n)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
	data, err := tail(l.path, 1<<20)
	require.NoError(t, err)
	require.Equal(t, "line 49\n", string(data), "a short file is read as a whole")
	_, err = tail(l.path+".none", 8)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// put makes a file of a size and an age.
func put(t *testing.T, path string, size int, age time.Duration) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, make([]byte, size), 0o600))
	at := hosttest.Now.Add(-age)
	require.NoError(t, os.Chtimes(path, at, at))
}

func TestWorkFolderIsCleanedWithinItsLimit(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	put(t, outside, 1000, 99*time.Hour)
	put(t, filepath.Join(temp(dir), "a/oldest"), 1000, 9*time.Hour)
	put(t, filepath.Join(cache(dir), "pip/older"), 1000, 8*time.Hour)
	put(t, filepath.Join(cache(dir), "pip/old"), 1000, 7*time.Hour)
	put(t, filepath.Join(temp(dir), "in-use"), 1000, time.Minute)
	put(t, filepath.Join(dir, "volumes/live/v/file"), 5000, 99*time.Hour)
	require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(temp(dir), "link")))

	c, err := clean(dir, 9000, hosttest.Now)
	require.NoError(t, err)
	require.Equal(t, Cleaned{Bytes: 9000}, c, "within the limit nothing is removed")

	c, err = clean(dir, 7500, hosttest.Now)
	require.NoError(t, err)
	require.Equal(t, Cleaned{Bytes: 7000, Removed: 2000}, c)
	require.NoFileExists(t, filepath.Join(temp(dir), "a/oldest"))
	require.FileExists(t, filepath.Join(cache(dir), "pip/old"))

	c, err = clean(dir, 100, hosttest.Now)
	require.NoError(t, err)
	require.Equal(t, Cleaned{Bytes: 6000, Removed: 1000, Over: true}, c, "volumes and files in use stay")
	require.FileExists(t, filepath.Join(temp(dir), "in-use"))
	require.FileExists(t, filepath.Join(dir, "volumes/live/v/file"))
	require.FileExists(t, outside)
}

func TestRemovalFollowsNoLink(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	put(t, outside, 1, 0)
	put(t, filepath.Join(dir, "containers/c/file"), 1, 0)
	require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, "containers/c/input")))
	require.NoError(t, cleanLeftovers(dir))
	require.NoDirExists(t, filepath.Join(dir, "containers"))
	require.FileExists(t, outside)
	require.NoError(t, cleanLeftovers(dir), "a missing folder is no error")
}

// fakeChild is a process that ends by the test or by Kill.
type fakeChild struct {
	pid    int
	end    chan int
	killed chan struct{}
}

func newChild(pid int) *fakeChild {
	return &fakeChild{pid: pid, end: make(chan int, 1), killed: make(chan struct{})}
}

func (c *fakeChild) PID() int { return c.pid }

func (c *fakeChild) Wait() (int, error) {
	select {
	case exit := <-c.end:
		return exit, nil
	case <-c.killed:
		return killed, nil
	}
}

const killed = 1

func (c *fakeChild) Kill() error {
	close(c.killed)
	return nil
}

func TestWorkerIsStartedAgainUntilItIsReleased(t *testing.T) {
	now := hosttest.Now
	var waits []time.Duration
	var reports []string
	var children []*fakeChild
	exits := []int{3, 1, 0}
	s := supervisor{
		start: func() (Child, error) {
			if len(children) == 1 && len(waits) == 1 {
				waits = append(waits, 0)
				return nil, errors.New("no memory")
			}
			c := newChild(len(children) + 100)
			c.end <- exits[len(children)]
			if children = append(children, c); len(children) == 2 {
				now = now.Add(0)
			}
			return c, nil
		},
		after: func(d time.Duration) <-chan time.Time {
			waits = append(waits, d)
			at := make(chan time.Time, 1)
			at <- now
			return at
		},
		now:    func() time.Time { return now },
		report: func(pid int, problem string) { reports = append(reports, fmt.Sprintf("%d %s", pid, problem)) },
	}
	s.run(t.Context())
	require.Equal(t, []time.Duration{time.Second, 0, 2 * time.Second, 4 * time.Second}, waits)
	require.Equal(t, []string{"100 ", "0 Concourse's worker exited with 3; starting again in 1s",
		"0 cannot start Concourse's worker: no memory; starting again in 2s", "101 ", "0 Concourse's worker exited with 1; starting again in 4s",
		"102 ", "0 the web has retired or landed this worker; to start it again: concourse-worker-windows install"}, reports)
	for _, c := range children {
		select {
		case <-c.killed:
		default:
			t.Fatal("tasks of an ended worker must end")
		}
	}
}

func TestStoppingTheServiceEndsTheWorker(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := newChild(7)
	s := supervisor{start: func() (Child, error) { return c, nil }, after: time.After, now: time.Now,
		report: func(pid int, _ string) {
			require.Equal(t, 7, pid)
			cancel()
		}}
	s.run(ctx)
	<-c.killed
}

// A worker that fails at once must not use up the machine, and one that ran for a while starts at once.
func TestWaitBeforeARestartDoublesUpToAMinute(t *testing.T) {
	second := time.Second
	for name, tc := range map[string]struct{ ran, waits []time.Duration }{
		"fails at once":         {make([]time.Duration, 8), []time.Duration{second, 2 * second, 4 * second, 8 * second, 16 * second, 32 * second, 60 * second, 60 * second}},
		"ran for a while":       {[]time.Duration{0, 0, healthyAfter, 0}, []time.Duration{second, 2 * second, second, 2 * second}},
		"ran for a little less": {[]time.Duration{0, healthyAfter - 1, 0}, []time.Duration{second, 2 * second, 4 * second}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			now := hosttest.Now
			var waits []time.Duration
			supervisor{
				start: func() (Child, error) {
					now = now.Add(tc.ran[len(waits)])
					return nil, errors.New("no memory")
				},
				after: func(d time.Duration) <-chan time.Time {
					at := make(chan time.Time, 1)
					if waits = append(waits, d); len(waits) == len(tc.ran) {
						cancel()
						return nil
					}
					at <- now
					return at
				},
				now: func() time.Time { return now }, report: func(int, string) {},
			}.run(ctx)
			require.Equal(t, tc.waits, waits)
		})
	}
}

func (m *fakeMachine) StartChild(c Command) (Child, error) {
	m.started = append(m.started, c)
	return newChild(100 + len(m.started)), m.fail("child")
}

// servingOn returns the service of a machine with one GPU. Its work folder is on this system.
func servingOn(t *testing.T) (*fakeMachine, *serving) {
	t.Helper()
	m := newMachine(t)
	m.gpus = []GPU{{Device: 0x7551, Driver: "32.0"}}
	p, err := pathsOf(m)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(p.logs(), 0o755))
	s := &serving{m: m, p: p, settings: validSettings(), log: &logFile{path: p.log(), max: maxLog}}
	s.settings.WorkDir = t.TempDir()
	t.Cleanup(func() { s.log.Close() })
	return m, s
}

// The commands status and check read the state from the file.
func TestServiceWritesItsStateAfterEachChange(t *testing.T) {
	_, s := servingOn(t)
	written := func() State {
		t.Helper()
		state, err := readState(s.p.state())
		require.NoError(t, err)
		return state
	}
	_, err := s.start() // which looks for GPUs
	require.NoError(t, err)
	s.probe()
	s.report(101, "")
	got := written()
	require.Equal(t, []any{101, 1, "", os.Getpid(), DefaultAccount}, []any{got.PID, got.Starts, got.Problem, got.Service, got.Account})
	require.Contains(t, got.Tags, "gfx=gfx1201")
	require.Empty(t, got.LinkProblem+got.HIPProblem)
	require.False(t, got.Time.IsZero() || got.Since.IsZero())
	s.report(0, "exited with 3")
	got = written()
	require.Equal(t, []any{0, 1, "exited with 3"}, []any{got.PID, got.Starts, got.Problem})
	s.report(102, "")
	require.Equal(t, 2, written().Starts)

	old := time.Now().Add(-2 * time.Hour)
	for n, name := range []string{"a", "b"} {
		file := filepath.Join(temp(s.settings.WorkDir), name)
		put(t, file, 1000, 0)
		require.NoError(t, os.Chtimes(file, old, old))
		s.settings.LimitGB = 0
		s.clean()
		got = written()
		require.Equal(t, []any{int64(0), int64(1000 * (n + 1)), false}, []any{got.WorkBytes, got.Removed, got.OverLimit})
	}
	log, err := os.ReadFile(s.p.log())
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(log), "\n"), "only a problem is logged")
	require.Contains(t, string(log), `"message":"exited with 3"`)
}

func TestServiceTriesWhatItsTasksNeed(t *testing.T) {
	m, s := servingOn(t)
	sdk := t.TempDir()
	m.facts.HIP = []Tool{{Path: sdk}}
	s.probe()
	require.Contains(t, s.state.HIPProblem, "bin")
	require.NoError(t, os.Mkdir(filepath.Join(sdk, "bin"), 0o755))
	s.settings.WorkDir = filepath.Join(m.dir, "self.exe") // no folder
	s.state = State{}
	s.probe()
	require.Empty(t, s.state.HIPProblem)
	require.NotEmpty(t, s.state.LinkProblem)
}

func TestWorkerStartsInACleanFolder(t *testing.T) {
	m, s := servingOn(t)
	put(t, filepath.Join(s.settings.WorkDir, "containers/c/file"), 1, 0)
	child, err := s.start()
	require.NoError(t, err)
	require.Equal(t, 101, child.PID())
	require.NoDirExists(t, filepath.Join(s.settings.WorkDir, "containers"), "Concourse has forgotten them")
	require.DirExists(t, temp(s.settings.WorkDir))
	require.DirExists(t, cache(s.settings.WorkDir))
	c := m.started[0]
	require.Equal(t, s.p.concourse(), c.Path)
	require.Equal(t, []string{"worker"}, c.Args)
	require.Equal(t, s.settings.WorkDir, c.Dir)
	require.Contains(t, c.Env, "CONCOURSE_NAME=rdna4-box")
	s.settings.WorkDir = filepath.Join(m.dir, "self.exe")
	_, err = s.start()
	require.Error(t, err)
	require.Len(t, m.started, 1)
}
