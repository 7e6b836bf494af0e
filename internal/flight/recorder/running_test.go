package recorder_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

// A job of a runner asks why while it runs, shortly after a fault.
func TestRunThatGoesOnHasItsSignsInTheRecordAtOnce(t *testing.T) {
	const (
		reset  = "amdgpu " + gpu1 + ": amdgpu: GPU reset(2) succeeded!"
		crash  = "pytest[5000]: segfault at 0 ip 0000 sp 0000 error 4"
		others = "amdgpu " + gpu1 + ": amdgpu:  Process information: process secret pid 77 thread secret pid 77"
		board  = "[Hardware Error]: Uncorrected, software restartable error."
	)
	for name, c := range map[string]struct {
		lines []string
		kind  verdict.Kind
		code  string
		own   map[string]bool // the lines, and if the run's user may read them
	}{
		"no sign":              {},
		"reset of its GPU":     {[]string{reset}, verdict.GPU, "gpu-hang", map[string]bool{reset: true}},
		"reset of another GPU": {lines: []string{"amdgpu " + gpu0 + ": amdgpu: GPU reset(2) succeeded!"}},
		"crash of its process": {lines: []string{crash}, own: map[string]bool{crash: true}},
		"process of another user": {[]string{others, reset}, verdict.GPU, "gpu-hang",
			map[string]bool{others: false, reset: true}},
		"error of the machine":     {[]string{board}, verdict.Machine, "hardware-error", map[string]bool{board: false}},
		"processes of the machine": {lines: []string{"Out of memory: Killed process 77 (secret) total-vm:1kB"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.lease(aRun, "/system.slice/runner.service/gpukit-"+aRun)
			r.counts(0, gib)
			w.run(33 * time.Second)
			for _, line := range c.lines {
				w.say(line)
			}
			w.run(time.Second)
			one := w.open(aRun)
			v := verdict.SoFar(one, w.now)
			require.Equal(t, c.kind, v.Kind)
			require.NotNil(t, v.Reasons, "JSON has a list")
			if c.code != "" {
				require.Equal(t, c.code, v.Reasons[0].Code)
			}
			var own map[string]bool
			for _, l := range one.Evidence.Kernel {
				if own == nil {
					own = map[string]bool{}
				}
				own[l.Text] = l.Own
			}
			require.Equal(t, c.own, own)
		})
	}
}

// A job gets over a fault of its beginning, such as of a test that expects it.
func TestOldSignOfARunThatGoesOnIsNoCause(t *testing.T) {
	w := newWorld(t)
	w.lease(aRun, "/")
	w.run(2 * time.Second)
	w.say("amdgpu " + gpu1 + ": amdgpu: GPU reset(2) succeeded!")
	w.run(5 * time.Minute)
	v := verdict.SoFar(w.open(aRun), w.now)
	require.Equal(t, verdict.Unknown, v.Kind)
	require.Equal(t, "gpu-hang", v.Reasons[0].Code)
	require.False(t, v.Reasons[0].Cause)
}
