package taskrecord

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// after returns a time of a record, in seconds after its start.
func after(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }

// reading returns a sample with one known counter.
func reading(seconds, counters, counter int, value int64) Sample {
	s := NewSample(after(seconds), counters)
	s.Values[counter] = value
	return s
}

func sums(values ...int64) (all []Sample) {
	for i, v := range values {
		all = append(all, reading(i, NumCounters, CPUUsage, v))
	}
	return all
}

// A container's counters begin again if it gets another control group.
func TestGrowthOfASumThatBeganAgain(t *testing.T) {
	for name, c := range map[string]struct {
		samples []Sample
		want    float64
	}{
		"no reading":       {nil, 0},
		"one reading":      {sums(5), 0},
		"it grows":         {sums(5, 8, 8, 10), 5},
		"it began again":   {sums(8, 2, 3), 3},
		"a failed reading": {sums(5, Missing, 9), 4},
		"only failed ones": {sums(Missing, Missing), 0},
	} {
		require.Equal(t, c.want, Growth(c.samples, CPUUsage), name)
	}
}

func TestPaceIsTheWorkOfARun(t *testing.T) {
	r := &Record{Head: Head{Started: began, GPUs: []GPU{{Name: "a"}, {Name: "b"}}}, End: &End{Ended: after(60)},
		Machine: append(sums(1e6, 31e6), reading(3, NumCounters, DiskWritten, 100), reading(4, NumCounters, DiskWritten, 500)),
		GPUs: map[string][]Sample{"a": {reading(0, NumGPUCounters, Busy, 900), reading(10, NumGPUCounters, Busy, 500), reading(30, NumGPUCounters, Busy, 1000)},
			"b": {reading(0, NumGPUCounters, Busy, 1000), reading(4, NumGPUCounters, Busy, 250), reading(8, NumGPUCounters, Power, 1)}}}
	require.Equal(t, Pace{Seconds: 60, CPU: 30, GPU: 5 + 20 + 1, Written: 400}, withoutEnergy(PaceOf(r)))
	r.GPUs = map[string][]Sample{"a": {reading(0, NumGPUCounters, EnergySum, 1e6), reading(60, NumGPUCounters, EnergySum, 13e6)}}
	require.InDelta(t, 12_000, PaceOf(r).Joules, 1)
	require.Zero(t, PaceOf(&Record{Head: Head{Started: began}, End: &End{Ended: began}}))
}

func withoutEnergy(p Pace) Pace {
	p.Joules = 0
	return p
}

// values returns a chart of the timeline, with 0 for an unknown value.
func values(t *testing.T, line Timeline, name, gpu string) (all []float64, unit string, most float64) {
	t.Helper()
	for _, c := range line.Charts {
		if c.Name == name && c.GPU == gpu {
			for _, v := range c.Values {
				if v == nil {
					v = new(0.)
				}
				all = append(all, *v)
			}
			return all, c.Unit, c.Most
		}
	}
	return nil, "", 0
}

func TestTimelineHasTheMeanOfEachInterval(t *testing.T) {
	cpu := func(seconds int, sum int64) Sample { return reading(seconds, NumCounters, CPUUsage, sum) }
	memory := func(seconds int, bytes int64) Sample { return reading(seconds, NumCounters, MemoryUsed, bytes) }
	r := &Record{Head: Head{Handle: handleOf(1), Started: began, GPUs: []GPU{{Name: "a"}}}, End: &End{Ended: after(60)},
		Machine: []Sample{memory(0, 1<<20), memory(5, 3<<20), memory(60, 6<<20), reading(1, NumCounters, DiskFree, 0),
			cpu(0, 0), cpu(10, 10e6), cpu(20, 25e6), cpu(25, 30e6), cpu(40, 20e6), cpu(50, 25e6), cpu(50, 26e6)},
		GPUs:   map[string][]Sample{"a": {reading(9, NumGPUCounters, Busy, 500), reading(10, NumGPUCounters, Busy, 1000)}},
		Events: []Event{{At: after(60), Kind: "end"}, {At: after(29), Kind: Dump, GPU: "a"}, {At: after(-5), Kind: "begin"}, {At: after(30), Kind: "x"}},
	}
	line := TimelineOf(r, 6)
	require.Equal(t, []any{handleOf(1), began, after(60)}, []any{line.Handle, line.From, line.To})
	require.Len(t, line.Charts, 3, "a reading that is always 0 is left out")
	got, unit, most := values(t, line, "memory", "")
	require.Equal(t, []float64{2, 0, 0, 0, 0, 6}, got)
	require.Equal(t, "MiB", unit)
	require.Equal(t, 6., most)
	got, unit, most = values(t, line, "CPU", "")
	require.InDeltaSlice(t, []float64{0, 100, 400. / 3, 0, 0, 50}, got, 1e-9, "CPUs in %; a sum that began again shows nothing")
	require.Equal(t, "%", unit)
	require.InDelta(t, 400./3, most, 1e-9)
	got, unit, _ = values(t, line, "busy", "a")
	require.Equal(t, []float64{50, 100, 0, 0, 0, 0}, got)
	require.Equal(t, "%", unit)
	var marks []int
	for _, m := range line.Marks {
		marks = append(marks, m.At)
	}
	require.Equal(t, []int{0, 2, 3, 5}, marks)
	require.Equal(t, Mark{At: 2, Kind: Dump, GPU: "a", Time: after(29)}, line.Marks[1])

	empty := TimelineOf(&Record{Head: Head{Started: began}, End: &End{Ended: began}, Events: []Event{{At: began}}}, 6)
	require.Empty(t, empty.Charts)
	require.NotNil(t, empty.Charts, "JSON has a list")
	require.Equal(t, 0, empty.Marks[0].At)
}
