package quarantine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a health check has of the GPU's memory is not a level of rest, and must be back
// after it.
func TestMemoryOfAHealthCheckMustBeFreed(t *testing.T) {
	const gib = 1 << 30
	total := 64.0 * gib
	r, at := Record{}, start
	l := Look{Policy: Auto, HealthCheck: "/opt/check"}
	look := func(letter byte, memory float64) *GPU {
		s, _ := sign(0, letter)
		s.Memory, s.Total = &memory, &total
		other, _ := sign(1, '.')
		at = at.Add(15 * time.Second)
		l.At, l.GPUs = at, []Reading{s, other}
		r = Decide(r, l)
		return r.Find(names[0])
	}
	look('.', gib)
	look('h', gib)
	for range 25 {
		look('.', gib)
	}
	require.Equal(t, []string{names[0]}, r.DueHealthChecks())
	p := HealthCheck{Name: names[0], Command: l.HealthCheck, Began: at, Running: true}
	l.HealthChecks = []HealthCheck{p}
	for range 8 {
		g := look('.', 60*gib)
		require.Empty(t, g.ActiveFaults)
		require.EqualValues(t, gib, *g.Idle)
	}
	p.Running, p.Ended, p.End = false, at, Passed
	l.HealthChecks = []HealthCheck{p}
	require.Equal(t, InService, look('.', 60*gib).State)
	require.Equal(t, InService, look('.', gib).State)
	require.Nil(t, r.Find(names[0]).DirtySince, "it was the driver, clearing up")
}
