package amdgpu

import "time"

// frozenTime bounds the time in which a counter of energy does not change. A GPU that is awake
// draws power.
const frozenTime = 10 * time.Second

// energyState follows the counter of energy, which stops or steps back on some boards.
type energyState struct {
	joules float64
	grew   time.Time // zero: not read yet
}

// follow returns the counter as one that never falls, because a fall means a new start to
// Prometheus. A new start is near 0. It returns no value while the counter has stopped and the
// GPU draws watts.
func (e *energyState) follow(now time.Time, read, watts Number) Number {
	switch {
	case !read.Known:
		e.grew = now // asleep, or without an answer
		return read
	case e.grew.IsZero() || read.Value > e.joules || read.Value < e.joules/2:
		e.joules, e.grew = read.Value, now
	case watts.Known && now.Sub(e.grew) >= frozenTime:
		return Number{}
	}
	return Known(e.joules)
}
