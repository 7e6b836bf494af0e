package usage

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func gfx(t *testing.T, s *Scanner, container string) (float64, bool) {
	t.Helper()
	for _, r := range s.Last().Of(first) {
		if r.Container == container {
			for _, e := range r.Engines {
				if e.Name == "gfx" {
					return e.Value, true
				}
			}
			return 0, true
		}
	}
	return 0, false
}

// Each step is what the clients of one container report; the counter never falls.
func TestEngineTimeNeverFallsWhileTheContainerLives(t *testing.T) {
	m := newMachine(t)
	hosttest.Put(t, m.root, "/sys/fs/cgroup/system.slice/concourse-worker.service/garden/"+handle+"/cgroup.procs", "100\n")
	s := m.scanner(Options{})
	for i, step := range []struct {
		clients map[int]int // id -> seconds
		want    float64
	}{
		{map[int]int{1: 10}, 10},
		{map[int]int{1: 12, 2: 5}, 17},
		{map[int]int{2: 5}, 17}, // a client ended
		{map[int]int{2: 4}, 17}, // a driver may report less for a while
		{map[int]int{2: 7}, 19},
		{map[int]int{}, 19},
		{map[int]int{2: 8}, 20}, // not seen for one scan: not counted again
		{map[int]int{3: 1}, 21},
		{map[int]int{}, 21},
	} {
		m.ends(100 + i - 1)
		m.process(100+i, task)
		for id, seconds := range step.clients {
			m.opens(100+i, 10+id, "/dev/dri/renderD128", amdgpu(first.PCI, id, 1, seconds*1e9))
		}
		scan(t, s, first)
		got, _ := gfx(t, s, handle)
		require.InDelta(t, step.want, got, 1e-9, "step %d", i)
		m.now = m.now.Add(time.Hour) // its control group is there, so it stays
	}
	require.NoError(t, m.root.Remove("/sys/fs/cgroup/system.slice/concourse-worker.service/garden/"+handle+"/cgroup.procs"))
	require.NoError(t, m.root.Remove("/sys/fs/cgroup/system.slice/concourse-worker.service/garden/"+handle))
	scan(t, s, first)
	_, there := gfx(t, s, handle)
	require.False(t, there, "it goes with its control group")
}

func TestContainerStaysForAWhileAfterItsLastClient(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 1, 1, 1e9))
	s := m.scanner(Options{})
	scan(t, s, first)
	m.ends(100)
	m.now = m.now.Add(linger - time.Second)
	require.Equal(t, `"`+handle+"\": 0 gfx=1s\n", scan(t, s, first))
	m.now = m.now.Add(time.Second)
	require.Empty(t, scan(t, s, first))
}

// With room for two containers, four use the GPU: the sum of all rows is the
// same as without a limit, and no counter falls when places become free.
func TestContainersBeyondTheLimitAreOne(t *testing.T) {
	m := newMachine(t)
	s := m.scanner(Options{Containers: 2})
	group := func(c int) string { return fmt.Sprintf("0::/garden/c%d\n", c) }
	at := func(c, seconds int) {
		m.process(100+c, group(c))
		m.opens(100+c, 5, "/dev/dri/renderD128", amdgpu(first.PCI, c, c, seconds*1e9))
	}
	m.process(50, system)
	m.opens(50, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 50, 1, 1e9))
	for c := 1; c <= 4; c++ {
		at(c, 10*c)
	}
	require.Equal(t, `"": 1 vram=1024 gtt=2.097152e+06 cpu=0 gfx=1s
"c1": 1 vram=1024 gtt=2.097152e+06 cpu=0 gfx=10s
"c2": 1 vram=2048 gtt=2.097152e+06 cpu=0 gfx=20s
"other": 2 vram=7168 gtt=4.194304e+06 cpu=0 gfx=70s
`, scan(t, s, first))
	m.ends(101)
	at(3, 31)
	m.now = m.now.Add(linger)
	require.Equal(t, `"": 1 vram=1024 gtt=2.097152e+06 cpu=0 gfx=1s
"c2": 1 vram=2048 gtt=2.097152e+06 cpu=0 gfx=20s
"other": 2 vram=7168 gtt=4.194304e+06 cpu=0 gfx=71s
`, scan(t, s, first))
	at(3, 33)
	require.Equal(t, `"": 1 vram=1024 gtt=2.097152e+06 cpu=0 gfx=1s
"c2": 1 vram=2048 gtt=2.097152e+06 cpu=0 gfx=20s
"c3": 1 vram=3072 gtt=2.097152e+06 cpu=0 gfx=2s
"other": 1 vram=4096 gtt=2.097152e+06 cpu=0 gfx=71s
`, scan(t, s, first), "c3 has a row of its own from now on; what it did before stays where it was counted")
}

func TestContainerNamedOtherHasOneRow(t *testing.T) {
	m := newMachine(t)
	for c, name := range []string{"a", "other", "z"} {
		m.process(100+c, "0::/garden/"+name+"\n")
		m.opens(100+c, 5, "/dev/dri/renderD128", amdgpu(first.PCI, c, 1, 1e9))
	}
	require.Equal(t, `"a": 1 vram=1024 gtt=2.097152e+06 cpu=0 gfx=1s
"other": 2 vram=2048 gtt=4.194304e+06 cpu=0 gfx=2s
`, scan(t, m.scanner(Options{Containers: 1}), first))
}

func TestOldClientsAreDropped(t *testing.T) {
	l := newLedger()
	gone := func(place) bool { return true }
	for turn := range uint64(100) {
		l.update(hosttest.Now, turn, []use{{client: clientKey{id: turn}, place: place{container: "c"}, pid: 1, units: -1,
			memory: [numKinds]int64{-1, -1, -1, -1}, engines: []engine{{"gfx", 1e9}}}}, 4, gone)
		require.LessOrEqual(t, len(l.clients), retention+1)
	}
	require.EqualValues(t, 100e9, l.totals["c"].ns["gfx"])
}

func TestOpenTimeSumsScansWithTheGPUOpen(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 1, 1, 1e9))
	m.opens(100, 6, "/dev/dri/renderD128", amdgpu(first.PCI, 2, 1, 1e9))
	s := m.scanner(Options{})
	open := func() float64 {
		scan(t, s, first)
		for _, r := range s.Last().Of(first) {
			if r.Container == handle {
				return r.Open
			}
		}
		return -1
	}
	require.Zero(t, open(), "nobody looked before")
	m.now = m.now.Add(15 * time.Second)
	require.Equal(t, 15.0, open(), "two clients hold it no longer than one")
	m.ends(100)
	m.now = m.now.Add(15 * time.Second)
	require.Equal(t, 15.0, open())
	m.process(101, task)
	m.opens(101, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 3, 1, 1e9))
	m.now = m.now.Add(15 * time.Second)
	require.Equal(t, 30.0, open(), "another process of the container")
}
