//go:build e2e

package page

import (
	"fmt"
	"math"
	"net/http/httptest"
	"testing"
	"time"

	"concourse-ci-machine/internal/exporter"
	"concourse-ci-machine/internal/exporter/api"
	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/gpu/health"
	"concourse-ci-machine/internal/pool"
	"concourse-ci-machine/internal/pool/quarantine"
)

// made serves the exporter's own page with GPUs that nobody has.
func made(t *testing.T, gpus []api.Status) string {
	t.Helper()
	report := api.Report{Unit: "rocm-worker/0", Host: "juju-4f2a10-0", Version: "v1.0.0", Time: now, GPUs: gpus}
	s := httptest.NewServer(exporter.Page(func() api.Report { return report }))
	t.Cleanup(s.Close)
	return s.URL
}

var now = time.Date(2026, 8, 1, 14, 15, 8, 0, time.UTC)

func of[T any](v T) *T { return &v }

// gpu is an Instinct at work, with numbers of the last 15 minutes.
func gpu(i int) api.Status {
	const points = 90
	scale := []float64{1, .97, .4, .2}[i%4]
	wave := func(low, high float64) []*float64 {
		out := make([]*float64, points)
		for k := range out {
			on := 1 / (1 + math.Exp(-8*math.Sin(2*math.Pi*(float64(k)+11*float64(i))/61)))
			out[k] = of(low + (high-low)*on + (high-low)*.02*math.Sin(float64(k*k+i)))
		}
		return out
	}
	h := &monitor.History{Interval: 10, Temperature: wave(42, 66*(scale+2)/3), Power: wave(90*scale, 250*scale),
		Memory: wave(28e9*scale, 54e9*scale), Activity: wave(.15*scale, .95*scale)}
	s := api.Status{Index: i, Name: "AMD Instinct MI210", PCI: fmt.Sprintf("0000:%02x:00.0", 3+i), GFX: "gfx90a", Partitions: 1,
		UUID: fmt.Sprintf("GPU-2f90ab16c8e7%04x", i), Up: true, Health: api.Health{State: health.Healthy, Score: of(100.), Reason: "nothing wrong with errors, temperature, throttling, links"},
		Temperature: h.Temperature[points-1], TemperatureLimit: of(105.), Sensor: "junction", Power: h.Power[points-1], PowerCap: of(300.),
		MemoryUsed: h.Memory[points-1], MemoryTotal: of(64. * (1 << 30)), Activity: h.Activity[points-1], History: h}
	use(&s, i)
	return s
}

// use lets a task have every second GPU.
func use(s *api.Status, i int) {
	s.Users, s.Lease = []api.User{}, &pool.Lease{}
	if i%2 > 0 {
		return
	}
	task, since := fmt.Sprintf("eb2a4fe8-e932-49c4-b519-4f1da190%04x", i), now.Add(-time.Duration(i+1)*7*time.Minute)
	s.Lease = &pool.Lease{Held: true, Container: task, Since: &since}
	s.Users = []api.User{{Container: task, Processes: 2, Memory: map[string]float64{"vram": 13e9, "gtt": 3e7, "kfd": 12e9},
		Engines: map[string]float64{"gfx": 2521.5, "dma": 12}, Busy: map[string]float64{"gfx": .83, "dma": .01}, Units: of(104.)}}
}

func gpus(n int) (all []api.Status) {
	for i := range n {
		all = append(all, gpu(i))
	}
	return all
}

// partitions are eight of each GPU.
func partitions(n int) (all []api.Status) {
	for i := range n {
		s := gpu(i / 8)
		first := i - i%8
		s.Name, s.GFX, s.Index, s.Partition, s.Partitions, s.ComputePartition, s.MemoryPartition = "AMD Instinct MI300X OAM", "gfx942", i, i%8, 8, "CPX", "NPS1"
		s.SocketActivity = s.Activity
		if i > first {
			s.SensorsOf, s.SocketActivity, s.Temperature, s.TemperatureLimit, s.Sensor = &first, nil, nil, nil, ""
			s.Power, s.PowerCap, s.MemoryUsed, s.MemoryTotal, s.History = nil, nil, nil, nil, &monitor.History{Interval: 10, Activity: s.History.Activity}
		}
		use(&s, i)
		all = append(all, s)
	}
	return all
}

// out keeps a GPU from new tasks.
func out(s api.Status, state quarantine.State) api.Status {
	s.Service = &pool.Service{State: state, Since: now.Add(-12 * time.Minute), Why: "hangs or is in reset (kernel_log)", By: quarantine.ByHealth}
	return s
}

// hurt makes a GPU critical.
func hurt(s api.Status) api.Status {
	s.Health = api.Health{State: health.Critical, Score: of(30.), Reason: "1 uncorrectable error (ECC Error - Uncorrectable)", Codes: []int{7}}
	s.Explained = health.Explain(s.Health.Codes)
	if s.Lease != nil && s.Lease.Held {
		s.Lease.Doubt = "its record is damaged"
	}
	return s
}
