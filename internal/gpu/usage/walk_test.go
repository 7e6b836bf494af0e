package usage

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// crowd is n processes with a descriptor each, which is of no GPU.
func crowd(t testing.TB, r host.Root, n int) {
	require.NoError(t, os.MkdirAll(r.Path("/idle/fd"), 0o755))
	require.NoError(t, os.Symlink("/dev/null", r.Path("/idle/fd/0")))
	for pid := 1000; pid < 1000+n; pid++ {
		require.NoError(t, os.Symlink("../idle", r.Path("/proc/"+strconv.Itoa(pid))))
	}
}

func pids(users []user) (out []int) {
	for _, u := range users {
		out = append(out, u.pid)
	}
	return out
}

// Of 10,000 processes a scan looks at as many as it may, continues after the last one, and
// sees the processes with a GPU each time.
func TestTenThousandProcessesAreBounded(t *testing.T) {
	m := newMachine(t)
	const n, links = 10_000, 6_000
	crowd(t, m.root, n)
	m.process(20_000, task)
	m.opens(20_000, 7, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 1, 0))
	w := newWalk(m.root, links)
	found := 0
	for turn := 1; found == 0; turn++ {
		require.Less(t, turn, 15)
		var left LeftOut
		found = len(w.run(&left))
		looked := 0
		for _, l := range w.seen {
			if l.turn == w.turn {
				looked++
			}
		}
		require.LessOrEqual(t, looked, links/(perOne+1)+1)
		require.Positive(t, looked)
		if found == 0 {
			require.Positive(t, left.Limit)
		}
	}
	for range 5 {
		require.Equal(t, []int{20_000}, pids(w.run(&LeftOut{})), "it is looked at first from now on")
	}
}

// Those who use a GPU can't use up the looks at the others.
func TestUsersWithManyDescriptorsHideNoOthers(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	for fd := range 50 {
		m.link(fmt.Sprintf("/proc/100/fd/%d", 10+fd), "/dev/dri/renderD128")
	}
	w := newWalk(m.root, 40)
	require.Equal(t, []int{100}, pids(w.run(&LeftOut{})))
	m.process(200, task)
	m.link("/proc/200/fd/10", "/dev/dri/renderD128")
	require.Equal(t, []int{100, 200}, pids(w.run(&LeftOut{})))
}

func TestProcessWithoutAGPUIsScannedEveryFourthTime(t *testing.T) {
	m := newMachine(t)
	crowd(t, m.root, 100)
	w := newWalk(m.root, defaultLinks)
	w.run(&LeftOut{})
	times := map[int]int{}
	for range 12 {
		w.run(&LeftOut{})
		for pid, l := range w.seen {
			if l.turn == w.turn {
				times[pid]++
			}
		}
	}
	require.Len(t, times, 100)
	for pid, n := range times {
		require.Equal(t, 3, n, pid)
	}
	m.link("/idle/fd/9", "/dev/dri/renderD128") // of all of them, which no inode number reports
	var users []user
	for range rescanEvery {
		users = w.run(&LeftOut{})
	}
	require.Len(t, users, 100, "who opens a GPU late is found")
}

func TestNewProcessWithAnOldNumberIsScannedAtOnce(t *testing.T) {
	m := newMachine(t)
	for pid := 100; pid < 110; pid++ {
		m.process(pid, system)
	}
	w := newWalk(m.root, defaultLinks)
	require.Empty(t, w.run(&LeftOut{}))
	for pid := 100; pid < 110; pid++ { // a file system may give a freed inode number again
		require.NoError(t, os.Rename(m.root.Path(fmt.Sprintf("/proc/%d", pid)), m.root.Path(fmt.Sprintf("/proc/old%d", pid))))
		m.process(pid, task)
		m.opens(pid, 7, "/dev/dri/renderD128", "")
	}
	require.Len(t, w.run(&LeftOut{}), 10)
}

func TestDescriptorsOfOneProcessAreBounded(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	for fd := range maxFiles + 50 {
		m.link(fmt.Sprintf("/proc/100/fd/%d", 10+fd), "/dev/dri/renderD128")
	}
	var left LeftOut
	w := newWalk(m.root, defaultLinks)
	users := w.run(&left)
	require.Len(t, users, 1)
	require.Len(t, users[0].fds, maxFiles)
	require.Equal(t, LeftOut{Limit: 1}, left)
}

func TestNodesOfDRM(t *testing.T) {
	for target, want := range map[string]string{
		"/dev/dri/renderD128": "renderD128", "/dev/dri/card0": "card0", "/dev/dri/card12": "card12",
		"/dev/dri/renderD129 (deleted)": "renderD129", "/dev/dri/by-path/x": "", "/dev/dri/": "", "/dev/dri": "",
		"/dev/dri/card": "", "/dev/dri/cardx": "", "/dev/dri/renderD": "", "/dev/kfd": "", "/dev/driver/card0": "",
		"/tmp/dev/dri/card0": "", "anon_inode:[dmabuf]": "", "": "",
	} {
		require.Equal(t, want, drmNode([]byte(target)), target)
	}
}

func BenchmarkWalkOfRealProcesses(b *testing.B) {
	w := newWalk("/", 1<<30)
	for b.Loop() {
		w.seen = map[int]looked{} // as if all were new
		w.run(&LeftOut{})
	}
	b.ReportMetric(float64(len(w.seen)), "processes")
}
