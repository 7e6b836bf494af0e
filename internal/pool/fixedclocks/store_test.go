package fixedclocks

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/stretchr/testify/require"
)

func TestClocksAreFixedDuringTheTask(t *testing.T) {
	for _, l := range []Level{Standard, Determinism} {
		w := newWorld(t)
		require.NoError(t, w.set("c1", l))
		require.Equal(t, l, w.level())
		require.True(t, w.look())
		require.Equal(t, l, w.level())
		w.holder = ""
		require.False(t, w.look())
		require.Equal(t, auto, w.level())
		require.True(t, w.blank())
	}
}

// MI300 and later: nine tenths of the highest clock in the driver's list.
func TestDeterminismLimitsTheClock(t *testing.T) {
	w := newWorld(t)
	var steps []string
	w.store.step = func(next string) { steps = append(steps, next) }
	require.NoError(t, w.set("c1", Determinism))
	require.Equal(t, []string{"write " + gpu, "put " + levelFile + " perf_determinism", "put " + clocksFile + " s 1 1890", "put " + clocksFile + " c"}, steps)
}

// A process that is killed while it fixes or restores clocks leaves no setting. The next look
// or create restores the clocks, and the next task that measures gets its setting.
func TestClocksAreRestoredAfterEveryKill(t *testing.T) {
	backs := map[string]func(w *world){
		"look":    func(w *world) { w.holder = ""; w.look() },
		"create":  func(w *world) { w.create("c2") },
		"measure": func(w *world) { require.NoError(w.t, w.set("c2", Standard)) },
	}
	for _, l := range []Level{Standard, Determinism} {
		for name, back := range backs {
			kills := 0
			for first := 0; ; first++ {
				killed := false
				for second := 0; ; second++ {
					w := newWorld(t)
					killed = w.dies(first, func() { _ = w.set("c1", l) })
					if !w.dies(second, func() { back(w) }) {
						break
					}
					kills++
					back(w)
					if name == "measure" {
						require.Equal(t, Standard, w.level(), "%d %d", first, second)
						w.holder = ""
						w.look()
					}
					require.Equal(t, auto, w.level(), "%s: killed at %d and %d", name, first, second)
					require.True(t, w.blank())
				}
				if !killed {
					break
				}
			}
			require.GreaterOrEqual(t, kills, 3, name)
		}
	}
}

// A setting that another program made during the task, or after a boot, is kept.
func TestManualSettingIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		want   Level
	}{
		"set by hand":          {func(w *world) { w.put("sys/"+levelFile, "manual\n") }, "manual"},
		"driver loaded again":  {func(w *world) { w.put("sys/"+levelFile, "auto\n") }, auto},
		"another boot":         {func(w *world) { w.put("proc/sys/kernel/random/boot_id", "boot-2\n") }, Standard},
		"another boot, by now": {func(w *world) { w.put("proc/sys/kernel/random/boot_id", "boot-2\n"); w.put("sys/"+levelFile, "low") }, "low"},
	} {
		for _, holder := range []string{"", "c1"} { // a container that was started again has the name
			w := newWorld(t)
			require.NoError(t, w.set("c1", Standard))
			c.change(w)
			w.holder = holder
			kept := w.look()
			require.Equal(t, c.want, w.level(), name)
			if holder == "" {
				require.False(t, kept)
				require.True(t, w.blank(), name)
			}
		}
	}
}

func TestGPUWithoutFixableClocksIsUnchanged(t *testing.T) {
	for want, change := range map[string]func(w *world){
		"another program set its clocks (power_dpm_force_performance_level is manual, not auto)": func(w *world) { w.put("sys/"+levelFile, "manual\n") },
		"it is divided (CPX), and its parts have the same clocks":                                func(w *world) { w.put("sys/"+divisionFile, "CPX\n") },
		"its driver has no power_dpm_force_performance_level":                                    func(w *world) { require.NoError(w.t, os.Remove(filepath.Join(w.root, "sys", levelFile))) },
		"pp_od_clk_voltage does not list its highest clock":                                      func(w *world) { w.put("sys/"+clocksFile, "OD_SCLK:\nOD_MCLK:\n1: 1300Mhz\n") },
		"cannot read pp_od_clk_voltage: no such file or directory":                               func(w *world) { require.NoError(w.t, os.Remove(filepath.Join(w.root, "sys", clocksFile))) },
	} {
		w := newWorld(t)
		change(w)
		var before Level
		if want != "its driver has no power_dpm_force_performance_level" {
			before = w.level()
		}
		require.EqualError(t, w.set("c1", Determinism), want)
		if before != "" {
			require.Equal(t, before, w.level())
		}
		require.True(t, w.blank())
	}
}

// A write that the kernel refuses after the level was set: it does not stay.
func TestPartialSettingIsUndone(t *testing.T) {
	w := newWorld(t)
	w.store.step = func(next string) {
		if next == "put "+clocksFile+" c" {
			require.NoError(t, os.Remove(filepath.Join(w.root, "sys", clocksFile)))
		}
	}
	require.ErrorContains(t, w.set("c1", Determinism), `cannot write "c" to pp_od_clk_voltage: no such file or directory`)
	require.Equal(t, auto, w.level())
	require.True(t, w.blank())
}

// The clocks stay fixed while the holder is unknown.
func TestUnknownHolderKeepsTheClocksFixed(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.set("c1", Standard))
	unknown := func() (string, error) { return "", errors.New("no") }
	_, err := w.store.Restore(gpu, w.clocks("").Sysfs, unknown)
	require.EqualError(t, err, "no")
	_, _, err = w.store.Hold(gpu, w.clocks("").Sysfs, unknown)
	require.EqualError(t, err, "no")
	require.Equal(t, Standard, w.level())
	w.holder = ""
	require.False(t, w.look())
	require.Equal(t, auto, w.level())
}

func TestGPUWithDamagedFileIsRestored(t *testing.T) {
	for _, text := range []string{"x", "{}", `{"container":"c1"}`} {
		w := newWorld(t)
		require.NoError(t, w.set("c1", Standard))
		w.put("clocks/"+gpu, text)
		w.look()
		require.Equal(t, auto, w.level(), text)
		require.True(t, w.blank(), text)
	}
}

func TestFileOfALaterVersionIsKept(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.set("c1", Standard))
	w.put("clocks/"+gpu, `{"format_version":2,"container":"c1"}`)
	none := func() (string, error) { return "", nil }
	var newer *rawjson.NewerError
	_, err := w.store.Restore(gpu, w.clocks("").Sysfs, none)
	require.ErrorAs(t, err, &newer)
	require.Equal(t, Standard, w.level())
	require.False(t, w.blank())
}

// A process that hangs in the driver has the file: others wait for a second, and go on.
func TestWaitForALockedFileIsShort(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.set("c1", Standard))
	f, err := w.store.lock(gpu)
	require.NoError(t, err)
	defer f.close()
	require.ErrorIs(t, w.set("c2", Standard), errBusy)
}

func TestOnlyPCIAddressesHaveFixedClocks(t *testing.T) {
	for name, want := range map[string]bool{gpu: true, "00010000:c3:00.0": true, "0000:03:00.0-1": false, "..": false, "": false,
		"0000:03:00.0/": false, "0000:03:00": false, "GPU-1a2b": false, "00:03:00.0": false} {
		require.Equal(t, want, IsWholeGPU(name), name)
	}
}

// The driver of a suspended GPU refuses reads. So the GPU is woken before each change.
func TestSuspendedGPUIsWoken(t *testing.T) {
	w := newWorld(t)
	w.store.DRI = filepath.Join(w.root, "dri")
	w.put("dri/renderD128", "")
	w.put("sys/drm/renderD128/dev", "226:128\n")
	w.put("sys/power/runtime_status", "suspended\n")
	var did []string
	w.store.step = func(next string) { did = append(did, next) }
	require.NoError(t, w.set("c1", Standard))
	w.holder = ""
	w.look()
	require.Equal(t, []string{"wake renderD128", "write " + gpu, "put " + levelFile + " profile_standard",
		"wake renderD128", "put " + levelFile + " auto", "blank " + gpu}, did)
	require.NoError(t, os.Remove(filepath.Join(w.root, "dri/renderD128")))
	require.NoError(t, w.set("c1", Standard), "it may answer all the same")
}
