package monitor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// warm is a GPU that reports its temperature alone.
func warm(name string, degrees float64) GPU {
	g := GPU{Record: pool.Record{Slot: gpu.Slot{PCI: exportertest.PCI, Model: name}}}
	g.State.Temperature = amdgpu.Temperature{Sensor: "edge", Now: amdgpu.Known(degrees)}
	return g
}

// told are the values of a series, -1 for what was not known.
func told(series []*float64) (out []float64) {
	for _, v := range series {
		if v == nil {
			out = append(out, -1)
		} else {
			out = append(out, *v)
		}
	}
	return out
}

func TestHistoryKeepsTheLastFifteenMinutes(t *testing.T) {
	require.Equal(t, 15*time.Minute, maxPoints*recordEvery)
	var h histories
	now := hosttest.Now
	for i := range 1000 {
		now = now.Add(recordEvery)
		h.add(now, []GPU{warm("a", float64(i))})
		require.Len(t, h.find(warm("a", 0).Slot).Temperature, min(i+1, maxPoints))
	}
	got := h.find(warm("a", 0).Slot)
	want := make([]float64, maxPoints)
	for i := range want {
		want[i] = float64(1000 - maxPoints + i)
	}
	require.Equal(t, want, told(got.Temperature))
	require.Len(t, got.Power, maxPoints)
	require.Nil(t, got.Power[0])
	require.Equal(t, 10.0, got.Interval)
	require.True(t, now.Equal(got.Last))
}

func TestMissedReadingsAreGapsInTheHistory(t *testing.T) {
	var h histories
	a := warm("a", 0).Slot
	at := func(seconds int, degrees float64) {
		h.add(hosttest.Now.Add(time.Duration(seconds)*time.Second), []GPU{warm("a", degrees)})
	}
	at(0, 40)
	at(11, 41) // late, but not missed
	at(42, 44)
	require.Equal(t, []float64{40, 41, -1, -1, 44}, told(h.find(a).Temperature))
	at(30, 45) // the clock was set back
	require.Equal(t, []float64{40, 41, -1, -1, 44, 45}, told(h.find(a).Temperature))
	at(86400, 50)
	got := told(h.find(a).Temperature)
	require.Len(t, got, maxPoints)
	require.Equal(t, []float64{-1, 50}, got[maxPoints-2:])
	require.NotContains(t, got, 45.0)
}

func TestHistoryHasOnlyPresentGPUs(t *testing.T) {
	var h histories
	a := warm("a", 0).Slot
	other := GPU{Record: pool.Record{Slot: gpu.Slot{PCI: "0000:04:00.0", Partition: 1, Model: "b"}}}
	require.Nil(t, h.find(a))
	h.add(hosttest.Now, []GPU{warm("a", 40), other})
	require.Nil(t, h.find(other.Slot), "a partition that shows no readings has no history")
	require.Nil(t, h.find(warm("another in its place", 0).Slot))
	h.add(hosttest.Now.Add(recordEvery), []GPU{other})
	require.Len(t, h.rings, 1)
	require.Nil(t, h.find(a))
	h.add(hosttest.Now.Add(2*recordEvery), []GPU{warm("a", 42)})
	require.Equal(t, []float64{42}, told(h.find(a).Temperature))
}

// The temperature that is kept is the one that is shown.
func TestHistoryHasTheSensorNearestItsLimit(t *testing.T) {
	m := newMonitor(exportertest.Put(t, exportertest.Sensors("edge", 70, 100, "junction", 90, 110)), one, Options{})
	m.Record()
	g := m.gpu(t)
	require.Equal(t, "junction", g.Temperature().Sensor)
	require.Equal(t, []float64{90}, told(m.histories.find(g.Slot).Temperature))
}
