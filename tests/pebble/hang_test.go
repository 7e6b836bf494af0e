//go:build e2e

package pebble

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
)

const (
	noWatchdog = "exporter serve --web.watchdog=0s"
	watchdog   = "exporter serve --web.watchdog=4s"
)

// As the charm sets it up, with its own times. Each hang comes before the check
// can have succeeded, so its failures add up: the watchdog ends the first, the
// check the second, and the third has the watchdog alone again.
func TestExporterThatHangsAgainAndAgainIsStartedAgain(t *testing.T) {
	t.Parallel()
	d := newUnit(t).start(t)
	pid := d.serving()
	for range 3 {
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		pid = d.serving(pid)
	}
	require.LessOrEqual(t, strings.Count(d.log.String(), `Check "rocm-exporter" threshold 3 hit`), 1)
	eventually(t, func() bool { return d.check().Status == "up" }, "the check does not recover")
}

// The check alone: what it is there for, and what it can't do.
func TestCheckStartsAHungExporterAgain(t *testing.T) {
	t.Parallel()
	d := newUnit(t, append(soon(), "exporter serve", noWatchdog)...).start(t)
	pid := d.serving()
	for range 2 {
		eventually(t, func() bool { c := d.check(); return c.Status == "up" && c.Successes > 0 && c.Failures == 0 }, "the check does not succeed")
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		pid = d.serving(pid)
	}
	require.GreaterOrEqual(t, strings.Count(d.log.String(), "threshold 3 hit"), 2)
}

// A check acts once, and not again before it has succeeded. Here it never does, as it asks
// if no one answers.
func TestHangThatTheCheckNoLongerActsOn(t *testing.T) {
	t.Parallel()
	latched := func(t *testing.T, flag string) (*daemon, int) {
		u := newUnit(t, append(soon(), "exporter serve", flag)...)
		layer := replace(t, u.layer, "/-/healthy", "/nowhere")
		require.NoError(t, u.WriteFile(layerPath, []byte(layer), 0o644))
		d := u.start(t)
		first := d.serving()
		pid := d.serving(first) // that was the one time
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		return d, pid
	}
	t.Run("Pebble alone leaves it", func(t *testing.T) {
		t.Parallel()
		d, pid := latched(t, noWatchdog)
		before := d.check().Failures
		eventually(t, func() bool { return d.check().Failures > before+20 }, "the check is not made any more")
		require.Equal(t, []int{pid}, d.pids())
		require.Equal(t, "active", d.state())
	})
	t.Run("the watchdog ends it", func(t *testing.T) {
		t.Parallel()
		d, pid := latched(t, watchdog)
		d.serving(pid)
	})
}

// A reading that hangs in the driver costs its GPU's series and no restart.
func TestHungGPURestartsNothing(t *testing.T) {
	t.Parallel()
	u := newUnit(t, append(soon(), "exporter serve", watchdog)...)
	list, _, err := monitor.All(u.gpus)()
	require.NoError(t, err)
	d := u.start(t)
	pid := d.serving()
	file := list[0].Sysfs + "/gpu_busy_percent"
	require.NoError(t, u.gpus.Remove(file))
	require.NoError(t, unix.Mkfifo(u.gpus.Path(file), 0o644)) // no one writes
	require.NoError(t, syscall.Kill(pid, syscall.SIGHUP))     // or it would keep the old one
	eventually(t, func() bool {
		code, body := d.get("/metrics")
		return code == 200 && strings.Contains(body, `signal="timeout"`)
	}, "the GPU does not hang")
	// 20 answers of the check, one every 500 ms, are more than twice the watchdog's time.
	before := d.check().Successes
	eventually(t, func() bool { return d.check().Successes > before+20 }, "the check does not succeed")
	require.Equal(t, []int{pid}, d.pids())
}
