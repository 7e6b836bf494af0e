//go:build e2e

package page

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	pages "github.com/fourdollars/concourse-ci-machine/internal/exporter/page"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// made serves the exporter's own page with GPUs that no one has.
func made(t *testing.T, gpus []api.Status) string {
	t.Helper()
	s := httptest.NewServer(pageOf(gpus))
	t.Cleanup(s.Close)
	return s.URL
}

func pageOf(gpus []api.Status) http.Handler {
	report := api.Report{Unit: "rocm-worker/0", Host: "juju-4f2a10-0", Version: "v1.0.0", Time: now, GPUs: gpus}
	return pages.Handler(func() api.Report { return report }, pages.Links{
		Dashboard: "https://grafana.example.com/d/amd-gpu", Build: "https://ci.example.com/containers/" + pages.Handle,
		Explain: "juju run rocm-worker/0 explain-error code=",
	})
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
	h := &api.History{Interval: 10, Last: now, Temperature: wave(42, 66*(scale+2)/3), Power: wave(90*scale, 250*scale),
		Memory: wave(28e9*scale, 54e9*scale), Activity: wave(.15*scale, .95*scale)}
	s := api.Status{Index: i, Name: "AMD Instinct MI210", PCI: fmt.Sprintf("0000:%02x:00.0", 3+i), GFX: "gfx90a", Partitions: 1,
		UUID: fmt.Sprintf("GPU-2f90ab16c8e7%04x", i), Up: true, Health: api.Health{State: health.Healthy, Score: of(100.), Reason: "nothing wrong with errors, temperature, throttling, links"},
		Temperature: h.Temperature[points-1], TemperatureLimit: of(105.), Sensor: "junction", Power: h.Power[points-1], PowerCap: of(300.),
		MemoryUsed: h.Memory[points-1], MemoryTotal: of(64. * (1 << 30)), Activity: h.Activity[points-1], History: h,
		Driver: "6.14.0-32-generic", Hardware: api.Hardware{
			Clocks:     []api.Clock{{Domain: "gfx", Hertz: 1e6 * (500 + 1200**h.Activity[points-1]), Max: of(1.7e9)}, {Domain: "mem", Hertz: 1.6e9, Max: of(1.6e9)}},
			PCIeLink:   &api.PCIeLink{Speed: of(16e9), SpeedMax: of(16e9), Lanes: of(16.), LanesMax: of(16.), Replays: of(0.)},
			Throttling: &api.Throttling{Reasons: []string{}, Share: of(0.)}, ECC: &api.ECC{Correctable: uint64(i % 3 * 7)},
			Energy: of(3.6e6 * (212.4 + 37*float64(i)))}}
	use(&s, i)
	return s
}

// use lets a task have every second GPU.
func use(s *api.Status, i int) {
	task, since := handle(i), now.Add(-time.Duration(i+1)*7*time.Minute)
	s.Users, s.Lease = []api.User{}, &pool.Lease{Last: &pool.Holder{Kind: lease.Task, Container: task, Since: &since}}
	if i%2 > 0 {
		idle(s, 5*time.Minute)
		return
	}
	memory := 5e9
	if s.MemoryUsed != nil {
		memory = .9 * *s.MemoryUsed
	}
	s.Lease = &pool.Lease{Held: true, Holder: pool.Holder{Container: task, Since: &since}}
	s.Users = []api.User{{Container: task, Processes: 2, Memory: map[string]float64{"vram": memory, "gtt": 3e7, "kfd": .9 * memory},
		Engines: map[string]float64{"gfx": 2521.5, "dma": 12}, Busy: map[string]float64{"gfx": .83, "dma": .01}, Units: of(104.)}}
	s.Processes = []usage.Process{{PID: 41240 + i, Name: "python3", Container: task, Memory: .9 * memory},
		{PID: 41290 + i, Name: "rocprofv3", Container: task, Memory: .1 * memory}}
}

// idle lets no program have the GPU since a time ago.
func idle(s *api.Status, since time.Duration) {
	for i := range s.Clocks {
		s.Clocks[i].Hertz = 132e6
	}
	h := s.History
	if h == nil {
		return
	}
	for values, low := range map[*[]*float64]float64{&h.Temperature: 38, &h.Power: 36, &h.Memory: 3e8, &h.Activity: 0} {
		for k := range *values {
			if time.Duration(len(*values)-k)*10*time.Second < since {
				(*values)[k] = of(low)
			}
		}
	}
	s.Temperature, s.Power, s.MemoryUsed, s.Activity = of(38.), of(36.), of(3e8), of(0.)
}

func handle(i int) string { return fmt.Sprintf("eb2a4fe8-e932-49c4-b519-4f1da190%04x", i) }

// workstation is a single GPU with a fan and a display.
func workstation() []api.Status {
	s := gpu(0)
	s.Name, s.GFX, s.PCI, s.UUID = "AMD Radeon PRO W7900", "gfx1100", "0000:03:00.0", "GPU-4be2f10c93d57a68"
	s.Fan = &api.Fan{RPM: of(1350.), MaxRPM: of(3300.), Drive: of(.41)}
	s.Clocks = []api.Clock{{Domain: "gfx", Hertz: 2.31e9, Max: of(2.495e9)}, {Domain: "mem", Hertz: 1.124e9, Max: of(1.124e9)}}
	s.Throttling.Reasons = []string{"ppt0"}
	return []api.Status{s}
}

// hot is a GPU near the limits of its sensor and its memory.
func hot(s api.Status) api.Status {
	last := len(s.History.Temperature) - 1
	for i, v := range s.History.Temperature {
		s.History.Temperature[i] = of(*v + 38*float64(i)/float64(last))
	}
	s.Temperature, s.MemoryUsed = s.History.Temperature[last], of(59.2*(1<<30))
	s.History.Memory[last] = s.MemoryUsed
	s.Throttling = &api.Throttling{Reasons: []string{"temperature_hotspot"}, Share: of(.23)}
	s.Health = api.Health{State: health.Warning, Score: of(82.), Codes: []int{4},
		Reason: fmt.Sprintf("junction at %.0f of 105 °C; throttled by temperature 23 %% of the time", *s.Temperature)}
	s.Explained = health.Explain(s.Health.Codes)
	return s
}

func gpus(n int) (all []api.Status) {
	for i := range n {
		all = append(all, gpu(i))
	}
	inService(all)
	return all
}

// longNames are GPUs of a run with a long title and a process of which the name has no space.
func longNames() []api.Status {
	all := gpus(4)
	const title = "ada/the-machine-learning-compilers-group: a job with a long name, step 3 of 14, attempt 2 (merge queue)"
	for i := range all {
		all[i].Name = "AMD Instinct MI300X OAM with a board name that its maker made long"
	}
	all[0].Lease.Container, all[0].Lease.Title, all[0].Lease.Kind = "run-4f1c0a2b91d3", title, lease.Run
	all[0].Users[0].Container = "run-4f1c0a2b91d3"
	for k, name := range []string{"pytest-xdist-wo", "torch._inductor", "hipBLASLt-bench"} {
		all[0].Processes = append(all[0].Processes[:k:k], usage.Process{PID: 4194301 + k, Name: name, Container: "run-4f1c0a2b91d3", Memory: 1e9})
	}
	all[1].Users, all[1].Lease = []api.User{{Processes: 1}}, nil
	all[1].Processes = []usage.Process{{PID: 4194300, Name: "Xorg", Screen: true, Memory: 1e8}}
	return all
}

// eightGPUs are one that is critical and quarantined, one that is on probation, and one that is hot.
func eightGPUs() []api.Status {
	all := gpus(8)
	all[5], all[2], all[4] = out(hurt(all[5]), quarantine.Quarantined), out(all[2], quarantine.OnProbation), hot(all[4])
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
			s.Hardware = api.Hardware{}
			s.Power, s.PowerCap, s.MemoryUsed, s.MemoryTotal, s.History = nil, nil, nil, nil, &api.History{Interval: 10, Last: now, Activity: s.History.Activity}
		}
		use(&s, i)
		all = append(all, s)
	}
	inService(all)
	return all
}

// inService gives all GPUs a decision.
func inService(all []api.Status) {
	for i := range all {
		all[i].Service = &pool.Service{State: quarantine.InService, Since: now.Add(-40 * time.Hour)}
	}
}

// out keeps a GPU from new tasks, after a fault that its last task had.
func out(s api.Status, state quarantine.State) api.Status {
	why := "hangs or is in reset (kernel_log)"
	if s.Health.State == health.Critical {
		why = s.Health.Reason
	}
	s.PastFaults = []api.PastFault{{At: now.Add(-12 * time.Minute), Text: why, Container: handle(s.Index), Cause: quarantine.Infrastructure}}
	s.Service = &pool.Service{State: state, Since: now.Add(-12 * time.Minute), Why: why, By: quarantine.ByHealth}
	since := now.Add(-40 * time.Minute)
	s.Lease, s.Users, s.Processes = &pool.Lease{Last: &pool.Holder{Kind: lease.Task, Container: handle(s.Index), Since: &since}}, []api.User{}, nil
	idle(&s, 12*time.Minute)
	return s
}

// hurt makes a GPU critical.
func hurt(s api.Status) api.Status {
	s.Health = api.Health{State: health.Critical, Score: of(30.), Reason: "1 uncorrectable error (ECC Error - Uncorrectable)", Codes: []int{7}}
	s.Explained = health.Explain(s.Health.Codes)
	s.ECC = &api.ECC{Uncorrectable: 1, Correctable: 37}
	if s.Lease != nil && s.Lease.Held {
		s.Lease.Doubt = "its record is damaged"
	}
	return s
}
