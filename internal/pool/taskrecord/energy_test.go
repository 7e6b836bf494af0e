package taskrecord

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A task of ten minutes whose GPU has a known power, with a reading each second. The
// integral of the power is known exactly.
func TestEnergyIsTheIntegralOfThePower(t *testing.T) {
	const seconds, mean, swing = 600., 200., 150. // s, W, W
	power := func(s float64) float64 { return mean + swing*math.Sin(s/7) }
	sum := func(s float64) float64 { return mean*s - swing*7*(math.Cos(s/7)-1) } // J
	start := time.Unix(1_700_000_000, 0)
	record := func(change func(i int, s *Sample)) *Record {
		r := &Record{Head: Head{Started: start, GPUs: []GPU{{Name: "a"}}}, GPUs: map[string][]Sample{},
			End: &End{Ended: start.Add(seconds * time.Second)}}
		for i := range int(seconds) {
			at := float64(i) + .4
			s := NewSample(start.Add(time.Duration(at*1000)*time.Millisecond), NumGPUCounters)
			s.Values[Power], s.Values[EnergySum] = int64(power(at)*1000), int64(5e6+sum(at)*1000)
			change(i, &s)
			r.GPUs["a"] = append(r.GPUs["a"], s)
		}
		return r
	}
	noSum := func(s *Sample) { s.Values[EnergySum] = Missing }
	for name, c := range map[string]struct {
		change   func(i int, s *Sample)
		share    float64
		estimate bool
	}{
		"by the counter": {func(int, *Sample) {}, 1, false},
		"by the power":   {func(_ int, s *Sample) { noSum(s) }, 1, false},
		"some readings failed": {func(i int, s *Sample) {
			if i%5 == 2 {
				noSum(s)
				s.Values[Power] = Missing
			}
		}, 1, false},
		"the counter started again": {func(i int, s *Sample) {
			if i >= 300 {
				s.Values[EnergySum] -= 5e6 + int64(sum(300)*1000)
			}
		}, 1, false},
		"four tasks share the GPU": {func(_ int, s *Sample) { s.Values[Tasks] = 4 }, .25, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := EnergyOf(record(c.change))
			require.NotNil(t, e)
			require.InEpsilon(t, sum(seconds)*c.share, e.Joules, .01)
			require.Equal(t, c.estimate, e.Estimate)
		})
	}

	gap := EnergyOf(record(func(i int, s *Sample) {
		if noSum(s); i >= 100 && i < 200 {
			s.Values[Power] = Missing
		}
	}))
	require.True(t, gap.Estimate)
	require.InEpsilon(t, sum(seconds)-sum(200)+sum(100), gap.Joules, .01)
	require.Nil(t, EnergyOf(record(func(_ int, s *Sample) { *s = NewSample(time.UnixMilli(s.At), NumGPUCounters) })))
	require.Nil(t, EnergyOf(&Record{Head: Head{Started: start}}), "a task without a GPU")

	two := record(func(int, *Sample) {})
	two.Head.GPUs = append(two.Head.GPUs, GPU{Name: "second die"})
	require.Equal(t, []string{"second die"}, EnergyOf(two).Unmeasured)
	require.Contains(t, EnergyOf(two).String(), "1 GPU not measured")

	parts := record(func(int, *Sample) {})
	parts.Head.GPUs = []GPU{{Name: "a"}, {Name: "a-1"}}
	parts.GPUs["a-1"] = parts.GPUs["a"]
	require.InEpsilon(t, sum(seconds), EnergyOf(parts).Joules, .01, "the partitions of a card count once")

	asleep := EnergyOf(record(func(_ int, s *Sample) {
		*s = NewSample(time.UnixMilli(s.At), NumGPUCounters)
		s.Values[Asleep] = 1
	}))
	require.Zero(t, asleep.Joules)
}
