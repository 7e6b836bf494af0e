package watcher

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/amdgpu/gpumetrics"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// measuring returns host mi210x4 with a task 4f1c that measures on some GPUs.
type measuring struct {
	*Unit
	t     *testing.T
	names []string
}

var slots = []string{"0000:23:00.0", "0000:43:00.0", "0000:83:00.0", "0000:c3:00.0"}

func levelFile(name string) string {
	return sysfsDir(name) + "/power_dpm_force_performance_level"
}

func newMeasuring(t *testing.T, gpus ...int) *measuring {
	t.Helper()
	b := &measuring{leaseUnit(t, leasing()), t, nil}
	runs(t, b.Host.Root, "4711")
	taken(t, b.Unit, "4f1c", 4711, 0, lease.Want{Count: len(gpus), Of: gpus})
	require.NoError(t, b.Host.MkdirAll("/run/b", 0o755))
	dir, err := unix.Open(b.Host.Path("/run/b"), unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	defer unix.Close(dir)
	require.NoError(t, fixedclocks.MakeVerdict(dir, fixedclocks.VerdictOf([]fixedclocks.Measurement{{}})))
	for _, g := range gpus {
		b.names = append(b.names, slots[g])
		hosttest.Put(t, b.Host.Root, levelFile(slots[g]), "auto\n")
		require.NoError(t, b.fixedClocks().Set(slots[g], fixedclocks.Setting{Sysfs: b.Host.Path(sysfsDir(slots[g])), Level: fixedclocks.Standard}, fixedclocks.Task{Container: "4f1c", Bundle: "/run/b"}))
	}
	return b
}

// see makes one look.
func (b *measuring) see() (said string) {
	b.t.Helper()
	b.after(6 * time.Second)
	var out bytes.Buffer
	for _, name := range b.names {
		run := hosttest.NewRunner(b.t).Answer("systemd-run", "")
		b.Host.Runner = run
		require.NoError(b.t, b.WatchFixedClocks(b.t.Context(), name, 1))
		if len(run.Ran) > 0 { // its own service
			require.Equal(b.t, []string{"systemd-run --quiet --no-block --collect --unit=concourse-gpu-fixed-clocks-" + strings.ReplaceAll(name, ":", "-") + ".service --description=clocks of GPU " +
				name + " restored -- /opt/concourse-ci-machine/bin/dispatch gpu fixed-clocks " + name + " back"}, run.Ran)
			require.NoError(b.t, b.RestoreClocks(&out, name, false))
		}
	}
	return out.String()
}

func (b *measuring) level(g int) string {
	text, err := b.Host.ReadText(levelFile(slots[g]))
	require.NoError(b.t, err)
	word, _, _ := strings.Cut(text, "\n") // a file of sysfs has no more
	return word
}

// verdict returns the verdict that the task reads.
func (b *measuring) verdict() (valid bool, reason string) {
	b.t.Helper()
	data, err := b.Host.ReadFile("/run/b/" + fixedclocks.VerdictName)
	require.NoError(b.t, err)
	var v struct {
		Valid  bool
		Reason string
	}
	require.NoError(b.t, json.Unmarshal(data, &v))
	return v.Valid, v.Reason
}

func TestUndisturbedTaskGetsAGoodVerdict(t *testing.T) {
	b := newMeasuring(t, 1)
	valid, reason := b.verdict()
	require.False(t, valid)
	require.Equal(t, "the GPU has not been checked yet; it is checked within seconds", reason)
	require.Empty(t, b.see())
	valid, reason = b.verdict()
	require.True(t, valid, reason)
	require.Equal(t, "profile_standard", b.level(1))
}

// One throttled GPU of two makes the verdict bad for the whole run.
func TestThrottlingIsInTheVerdict(t *testing.T) {
	b := newMeasuring(t, 1, 2)
	b.see()
	valid, reason := b.verdict()
	require.True(t, valid, reason)
	const table = "/gpu_metrics"
	data, err := b.Host.ReadFile(sysfsDir(slots[2]) + table)
	require.NoError(t, err)
	data[112] |= 1 // indep_throttle_status
	hosttest.Put(t, b.Host.Root, sysfsDir(slots[2])+table, string(data))
	b.see()
	valid, reason = b.verdict()
	require.False(t, valid)
	require.Equal(t, "it was throttled: ppt0", reason)
	data[112] &^= 1
	hosttest.Put(t, b.Host.Root, sysfsDir(slots[2])+table, string(data))
	b.see()
	_, again := b.verdict()
	require.Equal(t, reason, again)
}

// runsAt sets the driver's activity and clocks of a GPU.
func (b *measuring) runsAt(g int, busy string, gfx, mem uint16) {
	b.t.Helper()
	dir := sysfsDir(slots[g])
	hosttest.Put(b.t, b.Host.Root, dir+"/gpu_busy_percent", busy+"\n")
	data, err := b.Host.ReadFile(dir + "/gpu_metrics")
	require.NoError(b.t, err)
	binary.LittleEndian.PutUint16(data[54:], gfx) // current_gfxclk
	binary.LittleEndian.PutUint16(data[58:], mem) // current_uclk
	hosttest.Put(b.t, b.Host.Root, dir+"/gpu_metrics", string(data))
}

// The verdict depends on the clocks during the run.
func TestChangedClockIsInTheVerdict(t *testing.T) {
	b := newMeasuring(t, 1)
	b.runsAt(1, "99", 1500, 1600)
	b.see()
	b.see()
	valid, reason := b.verdict()
	require.True(t, valid, reason)
	b.runsAt(1, "99", 1300, 1600)
	b.see()
	_, reason = b.verdict()
	require.Equal(t, "its gfx clock was 1300 MHz, and 1500 MHz at first", reason)
	data, err := b.Host.ReadFile("/run/b/" + fixedclocks.VerdictName)
	require.NoError(t, err)
	require.Contains(t, string(data), `"clocks": {"0000:43:00.0": {"gfx": [1300, 1500], "mem": [1600, 1600]}}`)
}

// A GPU with fixed clocks is read every second between two looks at the unit.
func TestGPUWithFixedClocksIsReadEverySecond(t *testing.T) {
	b := newMeasuring(t, 1)
	var slept time.Duration
	b.Host.Clock = hosttest.Clock{T: hosttest.Now, Slept: func(d time.Duration) { slept += d }}
	require.NoError(t, b.WatchFixedClocks(t.Context(), slots[1], ClockLooks))
	require.Equal(t, 5*time.Second, slept, "and the next process looks a second later")
	r, err := b.fixedClocks().Read(slots[1])
	require.NoError(t, err)
	require.Equal(t, 6, r.Looks)
	b.Host.Runner = hosttest.NewRunner(t).Answer("systemd-run", "")
	require.NoError(t, os.RemoveAll(b.Host.Path("/proc/4711")))
	require.NoError(t, b.WatchFixedClocks(t.Context(), slots[1], ClockLooks))
	require.Equal(t, 5*time.Second, slept, "its task is over")
}

// A task that sets the clocks, or a reset of its GPU, makes the result invalid.
func TestClocksSetByOthersAreInTheVerdict(t *testing.T) {
	b := newMeasuring(t, 1)
	b.see()
	hosttest.Put(t, b.Host.Root, levelFile(slots[1]), "auto\n")
	b.see()
	_, reason := b.verdict()
	require.Equal(t, "another program changed its clocks: power_dpm_force_performance_level is auto, not profile_standard", reason)
	require.NoError(t, b.Host.Remove(levelFile(slots[1])))
	b.see()
}

func TestClocksAreResetAfterTheTask(t *testing.T) {
	for name, end := range map[string]func(b *measuring){
		"its processes are gone": func(b *measuring) { require.NoError(t, os.RemoveAll(b.Host.Path("/proc/4711"))) },
		"leases are off":         func(b *measuring) { describe(t, b.Unit, map[string]any{"compute-runtime": "rocm"}) },
		"another has the GPU": func(b *measuring) {
			require.NoError(t, os.RemoveAll(b.Host.Path("/proc/4711")))
			runs(t, b.Host.Root, "4712")
			taken(t, b.Unit, "c2", 4712, 0, lease.Want{Count: 1, Of: []int{1}})
		},
		"its lease's file is gone": func(b *measuring) { require.NoError(t, os.RemoveAll(b.Host.Path(lease.DefaultDir))) },
	} {
		b := newMeasuring(t, 1)
		b.see()
		end(b)
		require.Equal(t, "GPU 0000:43:00.0: clocks restored, container 4f1c had fixed them\n", b.see(), name)
		require.Equal(t, "auto", b.level(1), name)
		_, reason := b.verdict()
		require.Equal(t, "its clocks were restored", reason)
		require.Empty(t, b.see())
	}
	b := newMeasuring(t, 1)
	require.NoError(t, b.RestoreClocks(io.Discard, slots[1], false))
	require.Equal(t, "profile_standard", b.level(1), "its task goes on")
	require.NoError(t, b.RestoreClocks(io.Discard, slots[1], true))
	require.Equal(t, "auto", b.level(1), "whoever has it")
}

// A look starts a process for each GPU with fixed clocks.
func TestLookStartsAProcessForEachGPUWithFixedClocks(t *testing.T) {
	b := newMeasuring(t, 1, 2)
	watchedBy(t, b.Unit)
	workerOf(t, b.Unit, nil)
	var seen []string
	b.Start = func(args ...string) error {
		if args[1] == "fixed-clocks" {
			seen = append(seen, args[2])
		}
		return nil
	}
	hosttest.Put(t, b.Host.Root, filepath.Join(fixedclocks.DefaultDir, slots[3]), "  \n")
	hosttest.Put(t, b.Host.Root, filepath.Join(fixedclocks.DefaultDir, "odd"), "x")
	watched(t, b.Unit)
	require.Equal(t, []string{slots[1], slots[2]}, seen)
	hosttest.Put(t, b.Host.Root, filepath.Join(fixedclocks.DefaultDir, slots[3]), "damaged")
	seen = nil
	watched(t, b.Unit)
	require.Equal(t, slots[1:], seen)
}

func TestReadingUsesTheDriversLimits(t *testing.T) {
	with := func(format, content uint8, t amdgpu.Throttling) amdgpu.State {
		return amdgpu.State{Alive: true, Table: amdgpu.Table{Revision: &gpumetrics.Revision{Format: format, Content: content}}, Throttling: t}
	}
	off, on := amdgpu.Throttle{Reason: "ppt0"}, amdgpu.Throttle{Reason: "temp_mem", Active: true}
	was := fixedclocks.Measurement{Level: fixedclocks.Standard, Counters: fixedclocks.Counters{{Ticks: 5}}}
	for name, c := range map[string]struct {
		state amdgpu.State
		want  fixedclocks.Reading
	}{
		"dead":             {amdgpu.State{}, fixedclocks.Reading{Failed: "the GPU does not answer"}},
		"asleep":           {amdgpu.State{Alive: true, RuntimePower: "suspended"}, fixedclocks.Reading{ThrottleKnown: true, Level: fixedclocks.Standard, Counters: was.Counters}},
		"no level":         {amdgpu.State{Alive: true}, fixedclocks.Reading{Failed: "operation not permitted"}},
		"no table":         {amdgpu.State{Alive: true}, fixedclocks.Reading{}},
		"bits":             {with(1, 3, amdgpu.Throttling{Active: []amdgpu.Throttle{off, on}}), fixedclocks.Reading{ThrottleKnown: true, Limits: []string{"temp_mem"}}},
		"MI300 on old 6.x": {with(1, 5, amdgpu.Throttling{Active: []amdgpu.Throttle{off}}), fixedclocks.Reading{}},
		"counters": {with(1, 9, amdgpu.Throttling{Ticks: amdgpu.Known(7), Residency: []amdgpu.Residency{{Reason: "ppt", Ticks: 3}}}),
			fixedclocks.Reading{ThrottleKnown: true, Counters: fixedclocks.Counters{{Ticks: 7}, {Reason: "ppt", Ticks: 3}}}},
	} {
		var got fixedclocks.Reading
		var unread error
		if name == "asleep" || name == "no level" {
			unread = unix.EPERM
		}
		addReading(&got, c.state, unread, was)
		require.Equal(t, c.want, got, name)
	}
}
