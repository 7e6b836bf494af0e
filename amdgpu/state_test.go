package amdgpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnknownNumbers(t *testing.T) {
	var n Number
	require.Nil(t, n.Pointer())
	n.setDefault(0)
	require.Equal(t, Known(0), n)
	require.InDelta(t, 0, *n.Pointer(), 0)
	n.setDefault(5)
	require.Equal(t, Known(0), n, "the first source wins")
	for _, c := range []struct{ n, other, want Number }{
		{Number{}, Number{}, Number{}},
		{Number{}, Known(3), Known(3)},
		{Known(3), Number{}, Known(3)},
		{Known(3), Known(2), Known(2)},
		{Known(2), Known(3), Known(2)},
	} {
		c.n.lower(c.other)
		require.Equal(t, c.want, c.n)
	}
}

// The sensor nearest to its limit counts, not the hottest one. A sensor without a limit has
// no place among them.
func TestNearestSensorIsTheOneByItsLimit(t *testing.T) {
	s := State{Temperatures: []Temperature{
		{Sensor: "edge", Now: Known(80), Critical: Known(100)},
		{Sensor: "junction", Now: Known(90), Critical: Known(120)},
		{Sensor: "mem", Now: Known(200)},
		{Sensor: "vr", Critical: Known(10)},
	}}
	nearest, ok := s.Nearest()
	require.True(t, ok)
	require.Equal(t, "edge", nearest.Sensor)
	_, ok = (&State{Temperatures: s.Temperatures[2:]}).Nearest()
	require.False(t, ok)
}

// Firmware reports the heat of cool cards, so its bit counts near the limit only.
func TestSensorIsNearItsLimitFromNinetyPercent(t *testing.T) {
	for degrees, want := range map[float64]bool{89.9: false, 90: true, 110: true} {
		s := State{Temperatures: []Temperature{{Sensor: "junction", Now: Known(degrees), Critical: Known(100)}}}
		near, ok := s.near("junction")
		require.True(t, ok)
		require.Equal(t, want, near, degrees)
		_, ok = s.near("edge")
		require.False(t, ok)
	}
	_, ok := (&State{Temperatures: []Temperature{{Sensor: "edge", Now: Known(1)}}}).near("edge")
	require.False(t, ok, "its limit is not known")
}

func TestFirstSourceOfAClockOrARailWins(t *testing.T) {
	var s State
	s.addClock("gfx", 0, 1e9)
	s.addClock("gfx", 1, 2e9)
	s.addClock("gfx", 0, 3e9)
	require.Equal(t, []Clock{{"gfx", 0, 1e9}, {"gfx", 1, 2e9}}, s.Clocks)
	s.addRail("vddgfx", .8)
	s.addRail("vddgfx", .9)
	s.addRail("vddnb", .7)
	require.Equal(t, []Rail{{"vddgfx", .8}, {"vddnb", .7}}, s.Rails)
	s.sensor("edge").Now = Known(50)
	s.sensor("edge").Critical = Known(100)
	require.Equal(t, []Temperature{{Sensor: "edge", Now: Known(50), Critical: Known(100)}}, s.Temperatures)
}

func TestSuspendedGPUs(t *testing.T) {
	for power, want := range map[string]bool{"active": false, "suspended": true, "suspending": true, "unsupported": false, "": false} {
		require.Equal(t, want, (&State{RuntimePower: power}).Suspended(), power)
	}
	require.Equal(t, 6, (&BadPages{Retired: 1, Pending: 2, Unreservable: 3}).Total())
}
