package clockpin

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/stretchr/testify/require"
)

func TestGPUIsPinnedWhileItsTaskHasIt(t *testing.T) {
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

// MI300 and later: nine tenths of the highest clock, which the driver tells.
func TestDeterminismLimitsTheClock(t *testing.T) {
	w := newWorld(t)
	var told []string
	w.pins.step = func(next string) { told = append(told, next) }
	require.NoError(t, w.set("c1", Determinism))
	require.Equal(t, []string{"write " + gpu, "put " + levelFile + " perf_determinism", "put " + clocksFile + " s 1 1890", "put " + clocksFile + " c"}, told)
}

// No kill of what pins or gives back, and none of both, leaves a setting: the unit's look
// gives it back, the next create does, and the next that measures has its own.
func TestClocksAreRestoredAfterEveryKill(t *testing.T) {
	backs := map[string]func(w *world){
		"look":   func(w *world) { w.holder = ""; w.look() },
		"create": func(w *world) { w.create("c2") },
		"bench":  func(w *world) { require.NoError(w.t, w.set("c2", Standard)) },
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
					if name == "bench" {
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

// What somebody set meanwhile, or after a boot, is theirs.
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

func TestUnpinnableGPUIsUnchanged(t *testing.T) {
	for want, change := range map[string]func(w *world){
		"somebody has set its clocks (power_dpm_force_performance_level is manual, not auto)": func(w *world) { w.put("sys/"+levelFile, "manual\n") },
		"it is divided (CPX), and its parts have the same clocks":                             func(w *world) { w.put("sys/"+divisionFile, "CPX\n") },
		"its driver has no power_dpm_force_performance_level":                                 func(w *world) { require.NoError(w.t, os.Remove(filepath.Join(w.root, "sys", levelFile))) },
		"pp_od_clk_voltage does not tell its highest clock":                                   func(w *world) { w.put("sys/"+clocksFile, "OD_SCLK:\nOD_MCLK:\n1: 1300Mhz\n") },
		"cannot read pp_od_clk_voltage: no such file or directory":                            func(w *world) { require.NoError(w.t, os.Remove(filepath.Join(w.root, "sys", clocksFile))) },
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
	w.pins.step = func(next string) {
		if next == "put "+clocksFile+" c" {
			require.NoError(t, os.Remove(filepath.Join(w.root, "sys", clocksFile)))
		}
	}
	require.ErrorContains(t, w.set("c1", Determinism), `cannot write "c" to pp_od_clk_voltage: no such file or directory`)
	require.Equal(t, auto, w.level())
	require.True(t, w.blank())
}

// Nobody can tell whether the task is there: its pin stays until that can be told.
func TestUnknownHolderKeepsThePin(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.set("c1", Standard))
	unknown := func() (string, error) { return "", errors.New("no") }
	_, err := w.pins.Restore(gpu, w.clocks("").Dir, unknown)
	require.EqualError(t, err, "no")
	_, _, err = w.pins.Hold(gpu, w.clocks("").Dir, unknown)
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
		w.put("pins/"+gpu, text)
		w.look()
		require.Equal(t, auto, w.level(), text)
		require.True(t, w.blank(), text)
	}
}

func TestPinOfALaterVersionStays(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.set("c1", Standard))
	w.put("pins/"+gpu, `{"format_version":2,"container":"c1"}`)
	none := func() (string, error) { return "", nil }
	var newer *rawjson.NewerError
	_, err := w.pins.Restore(gpu, w.clocks("").Dir, none)
	require.ErrorAs(t, err, &newer)
	require.Equal(t, Standard, w.level())
	require.False(t, w.blank())
}

// A process that hangs in the driver has the file: others wait for a second, and go on.
func TestWaitForALockedFileIsShort(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.set("c1", Standard))
	f, err := w.pins.lock(gpu)
	require.NoError(t, err)
	defer f.close()
	require.ErrorIs(t, w.set("c2", Standard), errBusy)
}

func TestOnlyPCIAddressesArePinned(t *testing.T) {
	for name, want := range map[string]bool{gpu: true, "00010000:c3:00.0": true, "0000:03:00.0-1": false, "..": false, "": false,
		"0000:03:00.0/": false, "0000:03:00": false, "GPU-1a2b": false, "00:03:00.0": false} {
		require.Equal(t, want, IsWholeGPU(name), name)
	}
}

// The driver of a GPU that sleeps answers nobody: it is woken to be pinned, and to be given
// back.
func TestSuspendedGPUIsWoken(t *testing.T) {
	w := newWorld(t)
	w.pins.DRI = filepath.Join(w.root, "dri")
	w.put("dri/renderD128", "")
	w.put("sys/drm/renderD128/dev", "226:128\n")
	w.put("sys/power/runtime_status", "suspended\n")
	var did []string
	w.pins.step = func(next string) { did = append(did, next) }
	require.NoError(t, w.set("c1", Standard))
	w.holder = ""
	w.look()
	require.Equal(t, []string{"wake renderD128", "write " + gpu, "put " + levelFile + " profile_standard",
		"wake renderD128", "put " + levelFile + " auto", "blank " + gpu}, did)
	require.NoError(t, os.Remove(filepath.Join(w.root, "dri/renderD128")))
	require.NoError(t, w.set("c1", Standard), "it may answer all the same")
}
