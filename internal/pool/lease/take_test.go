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

func TestTakeIsAllOrNothing(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b", "c")
	got, err := l.Take(w.call("c1", w.spawn("")), Want{Count: 2})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, got)
	_, err = l.Take(w.call("c2", w.spawn("")), Want{Count: 2})
	var r *Refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, Busy, r.Reason)
	states, c, err := l.Read()
	require.NoError(t, err)
	require.Equal(t, []State{
		{GPU: "a", Held: true, Kind: Task, Container: "c1", Since: w.clock}, {GPU: "b", Held: true, Kind: Task, Container: "c1", Since: w.clock}, {GPU: "c"},
	}, states)
	require.Equal(t, Counters{Granted: 1, Busy: 1}, c)
}

func TestTakeOfNamedGPUs(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b", "c", "d")
	got, err := l.Take(w.call("c1", w.spawn("")), Want{Of: []int{3, 1, 3}, Count: 2})
	require.NoError(t, err)
	require.Equal(t, []int{1, 3}, got)
	_, err = l.Take(w.call("c2", w.spawn("")), Want{Of: []int{1, 2}, Count: 2})
	require.ErrorContains(t, err, "1 of the 2 that the task names is free; 1 (b) is held by the task of container c1")
	got, err = l.Take(w.call("c2", w.spawn("")), Want{Of: []int{1, 2}, Count: 1})
	require.NoError(t, err)
	require.Equal(t, []int{2}, got)
}

// A step that runs again and again has all GPUs in turn, also if the links prefer one GPU,
// so that a program that crashes shows on each of them.
func TestRepeatsOfAStepSpreadOverFreeGPUs(t *testing.T) {
	linked, loner := linked(4, hives(4)).Links, linked(4, func(i, j int) int {
		return map[bool]int{true: LinkXGMI}[i < 3 && j < 3]
	}).Links
	for name, c := range map[string]struct {
		links  [][]int
		others string // step of a task between two runs, "" for none
		want   []int
	}{
		"no links":                    {nil, "", []int{0, 1, 2, 3, 0, 1, 2, 3}},
		"one hive":                    {linked, "", []int{0, 1, 2, 3, 0, 1, 2, 3}},
		"one hive, with others":       {linked, "other", []int{0, 2, 1, 3, 0, 2, 1, 3}},
		"a GPU without links":         {loner, "", []int{3, 0, 1, 2, 3, 0, 3, 1}},
		"a GPU without links, others": {loner, "other", []int{3, 1, 2, 3, 0, 1, 3, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			l := w.leases("a", "b", "c", "d")
			l.Links = c.links
			run := func(step string) int {
				w.clock = w.clock.Add(time.Minute)
				call := w.call("c"+strconv.FormatInt(w.clock.Unix(), 10), w.spawn(""))
				call.StepHash = step
				got, err := l.Take(call, Want{Count: 1})
				require.NoError(t, err)
				w.reap(call.PID)
				return got[0]
			}
			var got []int
			for range c.want {
				got = append(got, run("step"))
				if c.others != "" {
					run(c.others)
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestImpossibleRequestIsRefusedAtOnce(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b")
	for _, c := range []struct {
		name string
		want Want
		text string
	}{
		{"more than there are", Want{Count: 3}, "cannot lease 3 GPUs: this machine has 2"},
		{"more than are named", Want{Of: []int{1, 1}, Count: 2}, "cannot lease 2 GPUs: the task names 1"},
		{"none", Want{}, "cannot lease 0 GPUs"},
		{"one that is not there", Want{Of: []int{2}, Count: 1}, "cannot lease GPU 2: this machine has 2"},
		{"a negative one", Want{Of: []int{-1}, Count: 1}, "cannot lease GPU -1: this machine has 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := l.Take(w.call("c1", w.spawn("")), c.want)
			require.ErrorContains(t, err, c.text)
		})
	}
	_, n, err := l.Read()
	require.NoError(t, err)
	require.Equal(t, Counters{Impossible: 2}, n)
}

func TestTakeRefusesInvalidCalls(t *testing.T) {
	w := newWorld(t, true)
	good := w.call("c1", w.spawn(""))
	for _, c := range []struct {
		name   string
		change func(*Call, *Leases)
		text   string
	}{
		{"no pid file", func(c *Call, _ *Leases) { c.PidFile = "" }, "without --pid-file"},
		{"a pid file from somewhere", func(c *Call, _ *Leases) { c.PidFile = "init.pid" }, "is not an absolute path"},
		{"no container", func(c *Call, _ *Leases) { c.Container = "" }, "names no container"},
		{"no cgroup", func(c *Call, _ *Leases) { c.Cgroup = "" }, "names no container, cgroup"},
		{"a process that is gone", func(c *Call, _ *Leases) { c.PID = 9999 }, "cannot lease GPUs to process 9999: it has ended"},
		{"a long path", func(c *Call, _ *Leases) { c.Bundle = strings.Repeat("x", 3000) }, "its paths are too long"},
		{"a GPU with a path", func(_ *Call, l *Leases) { l.GPUs = []string{"../x"} }, "its name must be"},
		{"a GPU twice", func(_ *Call, l *Leases) { l.GPUs = []string{"a", "a"} }, "it is listed twice"},
		{"no boot id", func(_ *Call, l *Leases) { l.Proc = "/nowhere" }, "cannot read /nowhere/sys/kernel/random/boot_id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, call := w.leases("a"), good
			c.change(&call, &l)
			_, err := l.Take(call, Want{Count: 1})
			require.ErrorContains(t, err, c.text)
			states, _, err := w.leases("a").Read()
			require.NoError(t, err)
			require.False(t, states[0].Held)
		})
	}
}

func TestDirectoryOfLeasesMustBePrivate(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, dir string)
		text string
	}{
		{"a link", func(t *testing.T, dir string) { require.NoError(t, os.Symlink("/tmp", dir)) }, "no link"},
		{"a file", func(t *testing.T, dir string) { require.NoError(t, os.WriteFile(dir, nil, 0o600)) }, "it must be a directory"},
		{"open to others", func(t *testing.T, dir string) { require.NoError(t, os.Mkdir(dir, 0o755)) }, "not a directory of mode 0700"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, true)
			l := w.leases("a")
			c.make(t, l.Dir)
			_, err := l.Take(w.call("c1", w.spawn("")), Want{Count: 1})
			require.ErrorContains(t, err, c.text)
			_, _, err = l.Read()
			require.ErrorContains(t, err, c.text)
		})
	}
	w := newWorld(t, true)
	l := w.leases("a")
	l.Euid++
	_, err := l.Take(w.call("c1", w.spawn("")), Want{Count: 1})
	require.ErrorContains(t, err, "owned by user")
}

func TestLeaseFilesArePrivateAndNotLinks(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b")
	_, err := l.Take(w.call("c1", w.spawn("")), Want{Count: 1})
	require.NoError(t, err)
	for _, name := range []string{"a", "b", "counters"} {
		st, err := os.Stat(l.path(name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), st.Mode(), name)
	}
	require.NoError(t, os.Remove(l.path("b")))
	require.NoError(t, os.Symlink(w.path("elsewhere"), l.path("b")))
	_, err = l.Take(w.call("c2", w.spawn("")), Want{Count: 1})
	require.ErrorIs(t, err, unix.ELOOP)
	require.NoFileExists(t, w.path("elsewhere"))
}

func TestReadCreatesNothing(t *testing.T) {
	l := newWorld(t, true).leases("a", "b")
	states, c, err := l.Read()
	require.NoError(t, err)
	require.Equal(t, []State{{GPU: "a"}, {GPU: "b"}}, states)
	require.Zero(t, c)
	require.NoDirExists(t, l.Dir)
	require.NoError(t, l.Cancel("c1"))
	require.NoDirExists(t, l.Dir)
}

func TestCancelEndsOnlyLeasesOfThisProcess(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b")
	c := w.call("c1", w.spawn(""))
	_, err := l.Take(c, Want{Count: 1})
	require.NoError(t, err)
	held := func() (list []bool) {
		states, _, err := l.Read()
		require.NoError(t, err)
		return []bool{states[0].Held, states[1].Held}
	}
	l.pid = w.spawn("")
	require.NoError(t, l.Cancel("c1"))
	require.Equal(t, []bool{true, false}, held())
	l.pid = c.PID
	require.NoError(t, l.Cancel("c2"))
	require.Equal(t, []bool{true, false}, held())
	w.clock = w.clock.Add(time.Second)
	require.NoError(t, l.Cancel("c1"))
	require.Equal(t, []bool{false, false}, held())
	_, n, err := l.Read()
	require.NoError(t, err)
	require.Equal(t, Counters{Granted: 1, HeldMS: 1000}, n)
}

// A lease with an end that is found by another call counts once.
func TestHeldTimeCountsOnceForEachGPU(t *testing.T) {
	for name, count := range map[string]int{"found by one that takes one of them": 1, "by one that takes both": 2} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			l := w.leases("a", "b")
			c := w.call("c1", w.spawn(""))
			_, err := l.Take(c, Want{Count: 2})
			require.NoError(t, err)
			w.reap(c.PID)
			w.clock = w.clock.Add(5 * time.Second)
			for i := range 2 {
				c = w.call("c2", w.spawn(""))
				_, err = l.Take(c, Want{Count: count})
				require.NoError(t, err, i)
				w.reap(c.PID)
			}
			_, n, err := l.Read()
			require.NoError(t, err)
			require.Equal(t, Counters{Granted: 3, HeldMS: 10000}, n)
		})
	}
}

func TestFailedWriteLeasesNothing(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b")
	c := w.call("c1", w.spawn(""))
	dir, err := l.createDir()
	require.NoError(t, err)
	defer unix.Close(dir)
	s, err := l.lock(dir, l.all())
	require.NoError(t, err)
	require.NoError(t, unix.Close(s[1].fd))
	s[1].fd, err = unix.Open(l.path("b"), unix.O_RDONLY, 0)
	require.NoError(t, err)
	now := w.clock
	_, err = l.write(s, record{container: "c1", boot: "boot-1", pidFile: c.PidFile, cgroup: "c1", calls: []process{{c.PID, 1001}}, phase: created, since: now, called: now}, l.all(), now)
	require.ErrorContains(t, err, "cannot write "+l.path("b"))
	s.close()
	states, _, err := l.Read()
	require.NoError(t, err)
	require.False(t, states[0].Held || states[1].Held)
}

func TestReleaseNeedsForceForAHeldGPU(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b")
	call, _, task := busy(t, w, l)
	was, err := l.Release(0, false)
	require.EqualError(t, err, "cannot release GPU: 0 (a) is held by the task of container c1 since 22:13:20 UTC (0s); abort the build, or use force=true if no process uses it")
	require.True(t, was.Held)
	_, err = l.Release(2, true)
	require.ErrorContains(t, err, "this machine has 2")
	was, err = l.Release(0, true)
	require.NoError(t, err)
	require.Equal(t, call.Container, was.Container)
	was, err = l.Release(0, false)
	require.NoError(t, err)
	require.Equal(t, State{GPU: "a"}, was)
	w.reap(task)
}

func TestConcurrentExecsAreAllRecorded(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	_, _, task := busy(t, w, l)
	first, second := w.call("c1", w.spawn("")), w.call("c1", w.spawn(""))
	require.NoError(t, l.Enter(first, []int{0}))
	require.NoError(t, l.Enter(second, []int{0}))
	w.reap(second.PID)
	w.reap(task)
	_, err := l.Take(w.call("c2", w.spawn("")), Want{Count: 1})
	require.ErrorContains(t, err, "held by the task of container c1", "the first is still on its way")
	w.reap(first.PID)
	_, err = l.Take(w.call("c2", w.spawn("")), Want{Count: 1})
	require.NoError(t, err)
	err = l.Enter(w.call("c1", w.spawn("")), []int{0})
	var r *Refusal
	require.True(t, errors.As(err, &r))
	require.Contains(t, r.Error(), "cannot use 1 GPU in container c1 again: its task has ended, and since then 0 (a) is held by the task of container c2")
}

func TestEnterAfterTheRecordWasLostNeedsThePidFile(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	call, _, task := busy(t, w, l)
	w.reap(task)
	_, err := l.Release(0, false)
	require.NoError(t, err)
	exec := w.call("c1", w.spawn(""))
	exec.PidFile = ""
	require.ErrorContains(t, l.Enter(exec, []int{0}), "without --pid-file")
	exec.PidFile = call.PidFile
	require.NoError(t, l.Enter(exec, []int{0}))
	require.NoError(t, l.Enter(exec, nil), "a container without a lease")
}

func BenchmarkTakeAllOf8(b *testing.B) { benchmarkTake(b, 8) }
func BenchmarkTake1Of8(b *testing.B)   { benchmarkTake(b, 1) }

// benchmarkTake is Take if no one holds anything, and Forget after it. The part of Take is
// take-ns; floor-ns is what the system calls for the files of 8 GPUs alone cost at the same
// time: open, lock, read, write, close.
func benchmarkTake(b *testing.B, count int) {
	w := newWorld(b, true)
	l := w.leases("0", "1", "2", "3", "4", "5", "6", "7")
	c := w.call("c1", w.spawn(""))
	l.pid = c.PID
	var took, floor time.Duration
	room := make([]byte, recordSize)
	for b.Loop() {
		began := time.Now()
		_, err := l.Take(c, Want{Count: count})
		took += time.Since(began)
		require.NoError(b, err)
		require.NoError(b, l.Cancel("c1"))
		began = time.Now()
		var fds [8]int
		for i := range fds {
			fds[i], err = unix.Open(l.path(l.GPUs[i]), unix.O_RDWR|unix.O_CLOEXEC, 0)
			err = errors.Join(err, unix.Flock(fds[i], unix.LOCK_EX))
		}
		for i, fd := range fds {
			_, failed := unix.Pread(fd, room, 0)
			if err = errors.Join(err, failed); i < count {
				_, failed = unix.Pwrite(fd, room, 0)
			}
			err = errors.Join(err, failed, unix.Close(fd))
		}
		floor += time.Since(began)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "take-ns")
	b.ReportMetric(float64(floor.Nanoseconds())/float64(b.N), "floor-ns")
}

// The exporter, which is not root, reads another file of the folder above.
func TestFolderAboveTheLeasesIsOpenToAllWhateverTheUmask(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	w := newWorld(t, true)
	l := w.leases("a")
	l.Dir = w.path("run/leases")
	_, err := l.Take(w.call("c1", w.spawn("")), Want{Count: 1})
	require.NoError(t, err)
	for dir, want := range map[string]os.FileMode{"run": 0o755, "run/leases": 0o700} {
		st, err := os.Stat(w.path(dir))
		require.NoError(t, err)
		require.Equal(t, want, st.Mode().Perm(), dir)
	}
}

func TestGPUsWithTheMostFreeMemoryAreLeasedFirst(t *testing.T) {
	for name, c := range map[string]struct {
		taken map[int]uint64
		count int
		want  []int
	}{
		"none is used by others": {nil, 1, []int{0}},
		"the first is":           {map[int]uint64{0: 90}, 1, []int{1}},
		"the least used of all":  {map[int]uint64{0: 90, 1: 20, 2: 19, 3: 50}, 1, []int{2}},
		"two of the least used":  {map[int]uint64{0: 90, 1: 20, 3: 19}, 2, []int{2, 3}},
		"all are needed":         {map[int]uint64{0: 90}, 4, []int{0, 1, 2, 3}},
	} {
		w := newWorld(t, true)
		got, err := w.leases("a", "b", "c", "d").Take(w.call("c1", w.spawn("")), Want{Count: c.count, Taken: c.taken})
		require.NoError(t, err)
		require.Equal(t, c.want, got, name)
	}
}
