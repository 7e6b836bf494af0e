package amdgpu

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestEnergyNeitherFallsNorStandsStill(t *testing.T) {
	const none = -1
	type reading struct{ seconds, read, watts, want float64 }
	for name, readings := range map[string][]reading{
		"grows":                {{0, 500, 300, 500}, {5, 2000, 300, 2000}, {60, 18500, 300, 18500}},
		"steps back":           {{0, 500, 300, 500}, {4, 499.6, 300, 500}, {5, 800, 300, 800}},
		"starts again":         {{0, 5e6, 300, 5e6}, {4, 12, 300, 12}, {5, 312, 300, 312}},
		"stands still":         {{0, 500, 300, 500}, {9, 500, 300, 500}, {10, 500, 300, none}, {60, 500, 300, none}},
		"grows again":          {{0, 500, 300, 500}, {10, 500, 300, none}, {11, 800, 300, 800}, {12, 800, 300, 800}},
		"the power is unknown": {{0, 500, none, 500}, {3600, 500, none, 500}},
		"was asleep":           {{0, 500, 300, 500}, {5, none, none, none}, {3600, none, none, none}, {3601, 500, 300, 500}},
	} {
		e := energyState{}
		number := func(v float64) Number { return Number{Value: max(0, v), Known: v >= 0} }
		for _, r := range readings {
			at := hosttest.Now.Add(time.Duration(r.seconds * float64(time.Second)))
			require.Equal(t, number(r.want), e.follow(at, number(r.read), number(r.watts)), "%s: %+v", name, r)
		}
	}
}

// The board BC-250 shows 100 at any load.
func TestBusyTimeOfABoardThatAlwaysShows100IsNotUsed(t *testing.T) {
	for gfx, want := range map[string]Number{"gfx1013": {}, "gfx1036": Known(1)} {
		r, _ := readerOf(t, exportertest.Put(t, map[string]string{"gpu_busy_percent": "100\n"}))
		r.device.GFX = gfx
		s := r.Read()
		require.Equal(t, want, s.Activity.Graphics, gfx)
		require.True(t, s.Alive)
		require.Equal(t, gfx == "gfx1013", len(s.Failures) == 1, gfx)
	}
}
