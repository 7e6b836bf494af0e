package exporter

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host/hosttest"
)

// warm is a GPU that tells its temperature alone.
func warm(name string, degrees float64) Status {
	return Status{Name: name, PCI: "0000:03:00.0", Temperature: &degrees}
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
	var h record
	now := hosttest.Now
	for i := range 1000 {
		now = now.Add(recordEvery)
		h.add(now, []Status{warm("a", float64(i))})
		require.Len(t, h.of(warm("a", 0)).Temperature, min(i+1, maxPoints))
	}
	got := h.of(warm("a", 0))
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

func TestHistoryHasGapsWhereNothingWasRead(t *testing.T) {
	var h record
	at := func(seconds int, degrees float64) {
		h.add(hosttest.Now.Add(time.Duration(seconds)*time.Second), []Status{warm("a", degrees)})
	}
	at(0, 40)
	at(11, 41) // late, but not missed
	at(42, 44)
	require.Equal(t, []float64{40, 41, -1, -1, 44}, told(h.of(warm("a", 0)).Temperature))
	at(30, 45) // the clock was set back
	require.Equal(t, []float64{40, 41, -1, -1, 44, 45}, told(h.of(warm("a", 0)).Temperature))
	at(86400, 50)
	got := told(h.of(warm("a", 0)).Temperature)
	require.Len(t, got, maxPoints)
	require.Equal(t, []float64{-1, 50}, got[maxPoints-2:])
	require.NotContains(t, got, 45.0)
}

func TestHistoryIsOfTheGPUsThatAreThere(t *testing.T) {
	var h record
	other := Status{Name: "b", PCI: "0000:04:00.0", Partition: 1}
	require.Nil(t, h.of(warm("a", 0)))
	h.add(hosttest.Now, []Status{warm("a", 40), other})
	require.Nil(t, h.of(other), "a partition that shows no readings has no history")
	require.Nil(t, h.of(warm("another in its place", 0)))
	h.add(hosttest.Now.Add(recordEvery), []Status{other})
	require.Len(t, h.rings, 1)
	require.Nil(t, h.of(warm("a", 0)))
	h.add(hosttest.Now.Add(2*recordEvery), []Status{warm("a", 42)})
	require.Equal(t, []float64{42}, told(h.of(warm("a", 0)).Temperature))
}

func TestRecordFillsTheAPIsHistory(t *testing.T) {
	r := hosttest.Host(t, "amd")
	synctest.Test(t, func(t *testing.T) { // its clock is a made-up one
		c := NewCollector(r, AMD(r), "test", Options{RASInterval: time.Minute})
		require.Nil(t, c.Status()[0].History)
		stop, cancel := context.WithCancel(context.Background())
		go c.Record(stop)
		time.Sleep(3*recordEvery + time.Second)
		synctest.Wait()
		b, err := json.Marshal(c.Status()[0].History)
		require.NoError(t, err)
		cancel()
		synctest.Wait()
		var got map[string]any
		require.NoError(t, json.Unmarshal(b, &got))
		require.NotEmpty(t, got["last"])
		delete(got, "last")
		require.Equal(t, map[string]any{"interval_seconds": 10.0, "temperature_celsius": []any{72.0, 72.0, 72.0},
			"power_watts": []any{137.0, 137.0, 137.0}, "memory_used_bytes": []any{6174015488.0, 6174015488.0, 6174015488.0},
			"activity_ratio": []any{.42, .42, .42}}, got)
	})
}
