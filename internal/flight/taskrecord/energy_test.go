package taskrecord

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A task of ten minutes with a GPU that has a known power, with a reading each second. The
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
		"the counter stands still": {func(_ int, s *Sample) { s.Values[EnergySum] = 8_152_136 }, 1, false},
		"the counter stands still for a while": {func(i int, s *Sample) {
			if i >= 100 && i < 300 {
				s.Values[EnergySum] = 8_152_136
			}
		}, 1, false},
		"the counter grows each 2 s": {func(i int, s *Sample) {
			at := float64(i-i%2) + .4
			s.Values[EnergySum] = int64(5e6 + sum(at)*1000)
		}, 1, false},
		"the counter steps back": {func(i int, s *Sample) {
			if i%60 == 30 {
				s.Values[EnergySum] -= 400_000
			}
		}, 1, false},
		"four tasks share the GPU, and their work is not known": {func(_ int, s *Sample) { s.Values[Tasks] = 4 }, .25, true},
		"two share it, and one does a fifth of the work": {func(i int, s *Sample) {
			s.Values[Tasks] = 2
			if i%15 == 7 {
				s.Values[Share] = 200_000
			}
		}, .2, true},
		"alone, and it does all of the work": {func(i int, s *Sample) {
			if s.Values[Tasks] = 1; i%15 == 7 {
				s.Values[Share] = 1_000_000
			}
		}, 1, false},
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
	late := EnergyOf(record(func(i int, s *Sample) {
		if noSum(s); i < 20 { // the firmware's first answers are 0 W
			s.Values[Power] = Missing
		}
	}))
	require.True(t, late.Estimate)
	require.InEpsilon(t, sum(seconds)-sum(20), late.Joules, .01)
	require.Nil(t, EnergyOf(record(func(_ int, s *Sample) { *s = NewSample(time.UnixMilli(s.At), NumGPUCounters) })))
	require.Nil(t, EnergyOf(&Record{Head: Head{Started: start}}), "a task without a GPU")

	clean := record(func(int, *Sample) {})
	require.Regexp(t, `^33\.\d Wh \(\d+ kJ\)$`, EnergyOf(clean).String())

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

// Two tasks share a GPU. The power and the share of each in the work change all the time.
// Their energies are the integrals of the power times the share.
func TestEnergyOfASharedGPUFollowsTheWork(t *testing.T) {
	const seconds = 1200
	power := func(s float64) float64 { return 250 + 150*math.Sin(s/40) }
	share := func(s float64) float64 { return .3 + .2*math.Cos(s/90) }
	integral := func(from, to float64, f func(float64) float64) (sum float64) {
		parts := int((to - from) * 100)
		for i := range parts {
			sum += f(from+(float64(i)+.5)/100) / 100
		}
		return sum
	}
	start, counter := time.Unix(1_700_000_000, 0), 5e9
	first := &Record{Head: Head{Started: start, GPUs: []GPU{{Name: "a"}}}, GPUs: map[string][]Sample{},
		End: &End{Ended: start.Add(seconds * time.Second)}}
	second := &Record{Head: first.Head, GPUs: map[string][]Sample{}, End: first.End}
	for i := range seconds + 1 {
		s := NewSample(start.Add(time.Duration(i)*time.Second), NumGPUCounters)
		if i > 0 {
			counter += 1000 * integral(float64(i-1), float64(i), power)
		}
		s.Values[EnergySum], s.Values[Tasks] = int64(counter), 2
		other := Sample{At: s.At, Values: append([]int64(nil), s.Values...)}
		if i%15 == 14 { // the scan's engine time is of the 15 s before it
			worked := integral(float64(i-15), float64(i), share) / 15
			s.Values[Share], other.Values[Share] = int64(worked*1e6), int64((1-worked)*1e6)
		}
		first.GPUs["a"], second.GPUs["a"] = append(first.GPUs["a"], s), append(second.GPUs["a"], other)
	}
	one, two := EnergyOf(first), EnergyOf(second)
	own := integral(0, seconds, func(s float64) float64 { return power(s) * share(s) })
	all := integral(0, seconds, power)
	require.InEpsilon(t, own, one.Joules, .01)
	require.InEpsilon(t, all-own, two.Joules, .01)
	require.InEpsilon(t, all, one.Joules+two.Joules, 1e-4, "nothing is lost or counted twice")
	require.True(t, one.Estimate)
	require.Contains(t, one.String(), "an estimate")
}

// Without a scan for a while, the last share is of another time.
func TestOldShareIsNotUsed(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	r := &Record{Head: Head{Started: start, GPUs: []GPU{{Name: "a"}}}, GPUs: map[string][]Sample{},
		End: &End{Ended: start.Add(1000 * time.Second)}}
	for i := range 1001 {
		s := NewSample(start.Add(time.Duration(i)*time.Second), NumGPUCounters)
		s.Values[Power], s.Values[Tasks] = 100_000, 2
		if i == 50 {
			s.Values[Share] = 0
		}
		r.GPUs["a"] = append(r.GPUs["a"], s)
	}
	require.InDelta(t, 950*100/2, EnergyOf(r).Joules, 1)
}
