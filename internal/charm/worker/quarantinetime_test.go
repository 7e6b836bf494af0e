package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
)

// The sum of all delays from the kernel's first sign to the quarantine, as in
// docs/explanation/gpu-health.md. The sign comes at the worst moment, directly after a
// reading.
func TestFaultyGPUIsQuarantinedWithin20Seconds(t *testing.T) {
	const most = 20 * time.Second
	look, answer := api.ReadPeriod, api.Deadline // an answer waits for a GPU that hangs
	for sign, takes := range map[string]time.Duration{
		"seen by each answer":  look + answer,
		"all readings refused": amdgpu.ResetReadings*look + answer, // each look asks for one
		"an error counter":     answer + look + answer,
	} {
		require.LessOrEqual(t, takes, most, sign)
	}
}

// A GPU falls asleep 5 s after a reading. Readings have longer intervals: counters follow
// the interval of the history.
func TestIdleGPUCanFallAsleep(t *testing.T) {
	const asleep = 5 * time.Second
	require.Greater(t, api.ReadPeriod, asleep)
	// With two intervals, one of them would lack a point of the other.
	require.Greater(t, monitor.DefaultRAS, api.ReadPeriod)
}
