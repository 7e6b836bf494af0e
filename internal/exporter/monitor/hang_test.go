package monitor

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/deadline"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestHungGPULosesOnlyItsOwnSeries(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	list, _, err := All(r)()
	require.NoError(t, err)
	require.Len(t, list, 4)
	hung := list[1]
	reached, end := exportertest.FIFO(t, r, hung.Sysfs+"/gpu_busy_percent")
	m := newMonitor(r, All(r), Options{})
	m.deadline = only(hung.Sysfs, reached)
	check := func(s Snapshot) {
		t.Helper()
		require.Equal(t, []bool{true, false, true, true}, ups(s))
		for i, g := range s.GPUs {
			told := i != 1
			for _, n := range []amdgpu.Number{g.State.Temperature.Now, g.State.Activity.Graphics, g.State.Power.Now, g.State.Memory.VRAM.Used} {
				require.Equal(t, told, n.Known, i)
			}
			require.Equal(t, !told, g.Silent)
		}
		g := s.GPUs[1]
		require.Equal(t, reading.State{State: amdgpu.State{Identity: amdgpu.Identity{UUID: "GPU-" + hung.UniqueID}},
			Compute: reading.Compute{Ready: amdgpu.Known(1)},
			Hangs:   reading.Hangs{Signals: []string{reading.SignalTimeout}, Events: 1, InDay: 1}}, g.State)
		require.Equal(t, health.Silent("gpu_busy_percent"), g.Health)
	}
	s := m.Snapshot()
	check(s)
	require.Equal(t, map[string]float64{"1 gpu_busy_percent timeout": 1}, errorsOf(s))

	// Asked again, it is neither read a second time nor waited for.
	m.deadline = never
	s = m.Snapshot()
	check(s)
	require.Equal(t, map[string]float64{"1 gpu_busy_percent timeout": 2}, errorsOf(s))
	require.True(t, m.reads.Outstanding(hung.Address()))
	open, run := m.reads.Join(hung.Address(), nil)
	require.Nil(t, run)

	// When the driver answers at last, the GPU is back.
	end("55\n")
	for m.reads.Outstanding(hung.Address()) {
		runtime.Gosched()
	}
	_, ok := deadline.Wait(open, never(""))
	require.False(t, ok, "its answer is too old")
	require.NoError(t, r.Remove(hung.Sysfs+"/gpu_busy_percent"))
	hosttest.Put(t, r, hung.Sysfs+"/gpu_busy_percent", "56\n")
	s = m.Snapshot()
	require.Equal(t, []bool{true, true, true, true}, ups(s))
	require.Equal(t, amdgpu.Known(.56), s.GPUs[1].State.Activity.Graphics)
	require.Equal(t, reading.Hangs{Events: 1, InDay: 1}, s.GPUs[1].State.Hangs)
	require.False(t, m.reads.Outstanding(hung.Address()))
}

// of is the deadline of one partition in a snapshot, the others of which have none: they
// share a folder, and are asked for in their order.
func of(d gpu.Slot, partition int, deadline chan time.Time) func(string) <-chan time.Time {
	next := 0
	return func(dir string) <-chan time.Time {
		if dir != d.Sysfs {
			return nil
		}
		if next++; next-1 == partition {
			return deadline
		}
		return nil
	}
}

func TestPartitionsOfAHungGPUAreDownTogether(t *testing.T) {
	r := hosttest.Host(t, "mi300x-cpx")
	list, _, err := All(r)()
	require.NoError(t, err)
	reached, end := exportertest.FIFO(t, r, list[0].Sysfs+"/mem_info_vram_used")
	m := newMonitor(r, All(r), Options{})
	m.deadline = of(list[0], 0, reached)
	s := m.Snapshot()
	require.Equal(t, []bool{false, false, false, false, false, false, false, false, true}, ups(s))
	for i, g := range s.GPUs[:8] {
		require.Equal(t, i > 0, g.Shared)
		require.Equal(t, health.Silent("mem_info_vram_used"), g.Health, "it has the health of its GPU")
	}
	end("1\n")
}

// The sensors are the first partition's to read, so the others can answer or not by
// themselves.
func TestPartitionThatHangsAloneIsCritical(t *testing.T) {
	r := hosttest.Host(t, "mi300x-cpx")
	list, _, err := All(r)()
	require.NoError(t, err)
	require.NotEqual(t, list[0].Own(), list[1].Own())
	hosttest.Put(t, r, list[1].Own()+"/xcp/xcp_metrics", "")
	reached, end := exportertest.FIFO(t, r, list[1].Own()+"/xcp/xcp_metrics")
	m := newMonitor(r, All(r), Options{})
	m.deadline = of(list[0], 1, reached)
	s := m.Snapshot()
	require.True(t, s.GPUs[0].Up)
	require.False(t, s.GPUs[1].Up)
	require.True(t, s.GPUs[1].Silent)
	require.Equal(t, health.Silent("xcp_metrics"), s.GPUs[1].Health)
	require.NotEqual(t, health.Critical, s.GPUs[0].Health.State)
	end("")
}

func TestFailedSearchReportsThePreviousGPUs(t *testing.T) {
	r := exportertest.Put(t, map[string]string{"mem_info_vram_total": "1024\n"})
	answer := one
	m := newMonitor(r, func() ([]gpu.Slot, []reading.Compute, error) { return answer() }, Options{})
	total := func() amdgpu.Number { return m.gpu(t).State.Memory.VRAM.Total }
	require.Equal(t, amdgpu.Known(1024), total())

	answer = func() ([]gpu.Slot, []reading.Compute, error) { return nil, nil, unix.EIO }
	require.Equal(t, amdgpu.Known(1024), total())
	m.deadline = never
	s := m.Snapshot()
	require.Len(t, s.GPUs, 1)
	require.Equal(t, map[string]float64{" search EIO": 2}, errorsOf(s))

	block := make(chan struct{})
	answer = func() ([]gpu.Slot, []reading.Compute, error) { <-block; return nil, nil, errors.New("unused") }
	now := make(chan time.Time)
	close(now)
	m.deadline = only("", now)
	s = m.Snapshot()
	require.Len(t, s.GPUs, 1)
	require.Equal(t, amdgpu.Known(1024), s.GPUs[0].State.Memory.VRAM.Total)
	require.Equal(t, map[string]float64{" search EIO": 2, " search timeout": 1}, errorsOf(s))
	close(block)
}

func TestScrapesAtTheSameTimeShareOneReading(t *testing.T) {
	r := exportertest.Put(t, map[string]string{"mem_info_vram_total": "1024\n", "mem_busy_percent": "101\n"})
	_, end := exportertest.FIFO(t, r, dev+"/mem_info_vram_total")
	m := newMonitor(r, one, Options{})
	joined := make(chan string)
	m.deadline = func(dir string) <-chan time.Time { // asked for once the reading has begun
		if dir == dev {
			joined <- dir
		}
		return nil
	}
	all := make(chan Snapshot, 2)
	for range 2 {
		go func() { all <- m.Snapshot() }()
	}
	<-joined
	<-joined
	end("7\n") // ends one reader; a second one would never come back
	for range 2 {
		s := <-all
		require.Equal(t, amdgpu.Known(7), s.GPUs[0].State.Memory.VRAM.Total)
		require.Equal(t, map[string]float64{"0 mem_busy_percent range": 1}, errorsOf(s), "counted once")
	}
}

func TestDescriptorsOfRemovedGPUsAreClosed(t *testing.T) {
	open := func() int { return openFiles(t) }
	before := open()
	r := hosttest.ManyGPUs(t, 16)
	list, _, err := All(r)()
	require.NoError(t, err)
	inBubble(t, func() { // in which all that closes can be waited for
		m := newMonitor(r, func() ([]gpu.Slot, []reading.Compute, error) { return list, nil, nil }, Options{})
		m.Snapshot()
		require.Greater(t, open(), before+16*8)
		list = nil
		m.now = func() time.Time { return hosttest.Now.Add(2 * searchEvery) }
		m.Snapshot()
		require.Empty(t, m.readers)
		require.Empty(t, m.ids)
	})
	require.LessOrEqual(t, open(), before+4)
}

// A search waits for a GPU that hangs and is not known yet, for all the time it has.
func TestLateSearchLeavesTheOtherGPUsTheirTime(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	list, _, err := All(r)()
	require.NoError(t, err)
	inBubble(t, func() { // its clock stands still while a file is read
		hangs, searched := make(chan struct{}), 0
		defer close(hangs)
		m := New(r, func() ([]gpu.Slot, []reading.Compute, error) {
			if searched++; searched > 1 {
				<-hangs
			}
			return list, nil, nil
		}, Options{})
		require.Equal(t, []bool{true, true, true, true}, ups(m.Snapshot()))
		m.refresh.Store(true)
		require.Equal(t, []bool{true, true, true, true}, ups(m.Snapshot()))
	})
}
