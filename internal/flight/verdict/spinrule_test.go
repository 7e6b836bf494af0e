package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

// A GPU that is suspended, or that has no reading of its work, is not a busy one.
func TestOnlyABusyGPUSpins(t *testing.T) {
	for name, c := range map[string]struct {
		busy  func(second float64) (permille float64, known bool)
		users float64
		code  string
	}{
		"busy":                       {func(float64) (float64, bool) { return 1000, true }, taskrecord.Missing, "gpu-spins"},
		"busy in one reading of ten": {func(s float64) (float64, bool) { return 1000, int(s)%10 == 0 }, taskrecord.NoUser, "stopped-idle"},
		"busy in nine of ten":        {func(s float64) (float64, bool) { return 1000, int(s)%10 != 0 }, taskrecord.Missing, "gpu-spins"},
		"unknown":                    {func(float64) (float64, bool) { return 0, false }, taskrecord.Missing, "stopped-idle"},
		"unknown, and no client":     {func(float64) (float64, bool) { return 0, false }, taskrecord.NoUser, "stopped-idle"},
		"suspended at the end":       {func(s float64) (float64, bool) { return 1000, s < 60 }, taskrecord.Missing, "stopped-idle"},
		"idle":                       {func(float64) (float64, bool) { return 0, true }, taskrecord.NoUser, "stopped-idle"},
	} {
		r := task{seconds: 400, exit: 143, machine: func(second float64, v values) { v.set(taskrecord.CPUUsage, 0) },
			gpu: func(second float64, g values) {
				g[taskrecord.Busy] = taskrecord.Missing
				if v, known := c.busy(second); known {
					g.set(taskrecord.Busy, v)
				}
				g.set(taskrecord.Users, c.users)
			}}.record()
		require.Equal(t, c.code, verdict.Decide(r).Reasons[0].Code, name)
	}
}
