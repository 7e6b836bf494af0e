package exporter

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestGPUsAsJSON(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	var got struct{ GPUs []api.Status }
	require.NoError(t, json.Unmarshal(newTestCollector(r, monitor.All(r)).get(t, "/api/v1/gpus").Body.Bytes(), &got))
	require.Len(t, got.GPUs, 4)
	bad := got.GPUs[3]
	require.Equal(t, "critical", string(bad.Health.State))
	require.Equal(t, 30.0, *bad.Health.Score)
	require.Equal(t, "1 uncorrectable error; 1 bad memory page", bad.Health.Reason)
	require.Equal(t, []health.Fault{{Kind: health.UncorrectableErrors, Value: 1}, {Kind: health.BadPages, Value: 1}}, bad.Health.Faults)
	require.Equal(t, []int{1, 7}, bad.Health.Codes)
	require.Len(t, bad.Explained, 2)
	require.Equal(t, 41.0, *bad.Temperature, "the sensor nearest its limit, not the edge")
	require.Equal(t, 99.0, *bad.TemperatureLimit)
	require.Equal(t, "mem", bad.Sensor)
	require.Equal(t, 44.0, *bad.Power)
	require.Equal(t, 300.0, *bad.PowerCap)
	require.InDelta(t, .03, *bad.Activity, 1e-9)

	r = hosttest.Host(t, "apu-gfx1103")
	apu := newTestCollector(r, monitor.All(r)).Report().GPUs
	require.Equal(t, "healthy", string(apu[0].Health.State), "judged by the limit of its kind")
	require.Nil(t, apu[0].TemperatureLimit, "which is not the GPU's own word")
	require.Empty(t, apu[0].Health.Faults)
	require.NotNil(t, apu[0].Health.Codes, "no error is an empty list")
	require.Empty(t, apu[0].Explained)
}

// A partition is as sick as its GPU, because it shares the sensors, by the same signals.
func TestPartitionsHaveTheHealthOfTheirGPU(t *testing.T) {
	r := hosttest.Host(t, "mi300x-cpx")
	list, _, err := monitor.All(r)()
	require.NoError(t, err)
	reached, end := exportertest.FIFO(t, r, list[0].Sysfs+"/mem_info_vram_used")
	c := newTestCollector(r, monitor.All(r))
	asked := false
	c.deadline = func(dir string) <-chan time.Time { // the first partition's: the others answer
		if dir != list[0].Sysfs || asked {
			return nil
		}
		asked = true
		return reached
	}
	gpus := c.Report().GPUs
	require.Len(t, gpus, 9)
	first := gpus[0]
	require.Equal(t, []string{reading.SignalTimeout}, first.Health.Hang)
	require.Equal(t, "hangs or is in reset (timeout); does not answer (reading mem_info_vram_used does not end)", first.Health.Reason)
	require.Equal(t, 0.0, *first.Health.Score)
	for _, g := range gpus[1:8] {
		require.Equal(t, first.Health, g.Health, g.Partition)
		require.Equal(t, first.Explained, g.Explained)
		require.False(t, g.Up)
	}
	require.NotEqual(t, first.Health, gpus[8].Health)
	end("1\n")
}

func TestRecordFillsTheAPIsHistory(t *testing.T) {
	r := hosttest.Host(t, "amd")
	synctest.Test(t, func(t *testing.T) { // its clock is a made-up one
		c := newTestCollector(r, monitor.All(r))
		c.now = time.Now
		require.Nil(t, c.Report().GPUs[0].History)
		go c.Monitor.Watch(t.Context())
		time.Sleep(31 * time.Second) // three points, one every 10 s
		synctest.Wait()
		b, err := json.Marshal(c.Report().GPUs[0].History)
		require.NoError(t, err)
		var got map[string]any
		require.NoError(t, json.Unmarshal(b, &got))
		require.NotEmpty(t, got["last"])
		delete(got, "last")
		require.Equal(t, map[string]any{"interval_seconds": 10.0, "temperature_celsius": []any{72.0, 72.0, 72.0},
			"power_watts": []any{137.0, 137.0, 137.0}, "memory_used_bytes": []any{6174015488.0, 6174015488.0, 6174015488.0},
			"activity_ratio": []any{.42, .42, .42}}, got)
	})
}

// A fault is shown at the GPU that had it, with its own time, for a day.
func TestPastFaultsAreOfTheGPUThatHadThem(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	rec := decided(t, r, nil, nil, nil)
	hang, ended := []health.Fault{{Kind: health.Hang, Signals: []string{"kernel_log"}}}, hosttest.Now.Add(-time.Hour)
	run := func(container string, at time.Time) quarantine.Run {
		return quarantine.Run{Container: container, Began: hosttest.Now.Add(-30 * time.Hour), Ended: &ended, Verdict: quarantine.Infrastructure,
			GPUs: []quarantine.Use{{Ref: rec.GPUs[1].Ref, NewFaults: hang, FaultAt: &at}, {Ref: rec.GPUs[2].Ref}}}
	}
	met := ended.Add(-2 * time.Hour)
	rec.FaultyRuns = []quarantine.Run{run("yesterday", hosttest.Now.Add(-25*time.Hour)), run(busyTask, met), run("first", met.Add(-time.Hour))}
	c := withService(t, r, rec)
	gpus := c.Report().GPUs
	require.Empty(t, gpus[0].PastFaults)
	require.Empty(t, gpus[2].PastFaults)
	want := api.PastFault{At: met, Text: "hangs or is in reset (kernel_log)", Container: busyTask, Cause: quarantine.Infrastructure}
	first := want
	first.Container, first.At = "first", met.Add(-time.Hour)
	require.Equal(t, []api.PastFault{want, first}, gpus[1].PastFaults, "the newest first")
	require.Contains(t, c.get(t, "/").Body.String(), "<summary>Last fault 2026-01-02 00:04:05 UTC</summary>")
}

// What other programs read must not lose or change a name unnoticed.
func TestNamesOfTheAPI(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	var got struct{ GPUs []map[string]any }
	require.NoError(t, json.Unmarshal(newTestCollector(r, monitor.All(r)).get(t, "/api/v1/gpus").Body.Bytes(), &got))
	names := func(m map[string]any) (all []string) {
		for name := range m {
			all = append(all, name)
		}
		slices.Sort(all)
		return all
	}
	bad := got.GPUs[3]
	require.Subset(t, names(bad), []string{"activity_ratio", "explained", "gfx", "health", "index", "memory_activity_ratio",
		"memory_total_bytes", "memory_used_bytes", "name", "partition", "pci_bus_id", "power_cap_watts", "power_watts", "suspended",
		"temperature_celsius", "temperature_limit_celsius", "temperature_sensor", "up", "uuid"})
	require.Equal(t, []string{"codes", "faults", "reason", "score", "state"}, names(bad["health"].(map[string]any)))
	require.Equal(t, map[string]any{"kind": "bad_pages", "value": 1.0}, bad["health"].(map[string]any)["faults"].([]any)[1])
}
