package nvidiagpu

import (
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
)

// Report holds the result of one run of nvidia-smi, as Watcher writes it.
type Report struct {
	At      time.Time `json:"at"`
	Failure string    `json:"failure,omitempty"` // timeout, format, or exit_N with the status; or ""
	Stuck   bool      `json:"stuck,omitempty"`   // the process does not exit even when it is killed
	GPUs    []Answer  `json:"gpus"`
}

// Answer holds the answer for one GPU.
type Answer struct {
	PCI   string `json:"pci"` // "0000:0a:00.0"
	UUID  string `json:"uuid,omitempty"`
	State string `json:"state,omitempty"` // lost, needs_reset, or ""
	// Values are the numeric answers, by the field's first name in fields, in the field's
	// own unit.
	Values map[string]float64 `json:"values"`
}

const (
	lostState  = "lost"
	needsReset = "needs_reset"
)

// staleReport is the age at which a report is no longer current. Reports are written every
// 15 s, or 20 s later if nvidia-smi does not answer.
const staleReport = time.Minute

func (r *Report) fresh(now time.Time) bool { return r != nil && now.Sub(r.At).Abs() < staleReport }

func (r *Report) find(pci string) *Answer {
	if i := slices.IndexFunc(r.GPUs, func(t Answer) bool { return t.PCI == pci }); i >= 0 {
		return &r.GPUs[i]
	}
	return nil
}

func (t *Answer) is(state string) bool { return t != nil && t.State == state }

// field describes a field of nvidia-smi --query-gpu, see --help-query-gpu.
type field struct {
	name, old string // name in drivers before 535; "" if equal
	min, max  float64
	put       func(s *reading.State, v float64)
}

const mib, megahertz = 1 << 20, 1e6

// generations holds the speeds of PCIe's generations from 1 on, in GT/s.
var generations = [...]float64{2.5, 5, 8, 16, 32, 64}

// fields lists the queried fields. A value outside min to max is ignored.
var fields = []field{
	{name: "temperature.gpu", max: maxCelsius, put: func(s *reading.State, v float64) {
		s.Temperature = amdgpu.Temperature{Sensor: gpuSensor, Now: amdgpu.Known(v)}
		s.Temperatures = []amdgpu.Temperature{s.Temperature}
	}},
	// The margin to the temperature at which the GPU slows itself down, so it must follow
	// the temperature. Beyond that it is negative. Older GPUs lack it, and have no limit
	// here.
	{name: "temperature.gpu.tlimit", min: -maxCelsius, max: maxCelsius, put: func(s *reading.State, v float64) {
		if len(s.Temperatures) > 0 {
			s.Temperature.Critical = amdgpu.Known(s.Temperature.Now.Value + v)
			s.Temperatures[0] = s.Temperature
		}
	}},
	{name: "temperature.memory", max: maxCelsius, put: func(s *reading.State, v float64) {
		if v > 0 {
			s.Temperatures = append(s.Temperatures, amdgpu.Temperature{Sensor: "mem", Now: amdgpu.Known(v)})
		}
	}},
	{name: "power.draw", max: maxWatts, put: number(func(s *reading.State) *amdgpu.Number { return &s.Power.Now }, 1)},
	{name: "power.limit", max: maxWatts, put: number(func(s *reading.State) *amdgpu.Number { return &s.Power.Cap },
		1)},
	{name: "power.max_limit", max: maxWatts,
		put: number(func(s *reading.State) *amdgpu.Number { return &s.Power.CapMax }, 1)},
	{name: "clocks.current.sm", max: 20_000, put: clock("gfx")},
	{name: "clocks.current.memory", max: 50_000, put: clock("mem")},
	{name: "clocks.max.sm", max: 20_000, put: clockMax("gfx")},
	{name: "clocks.max.memory", max: 50_000, put: clockMax("mem")},
	{name: "utilization.gpu", max: 100,
		put: number(func(s *reading.State) *amdgpu.Number { return &s.Activity.Graphics }, .01)},
	{name: "utilization.memory", max: 100,
		put: number(func(s *reading.State) *amdgpu.Number { return &s.Activity.Memory }, .01)},
	{name: "utilization.encoder", max: 100, put: engine("encoder")},
	{name: "utilization.decoder", max: 100, put: engine("decoder")},
	{name: "pcie.link.gen.current", min: 1, max: float64(len(generations)), put: func(s *reading.State, v float64) {
		s.PCIe.Speed = amdgpu.Known(generations[int(v)-1] * 1e9)
	}},
	{name: "memory.used", max: 1 << 30,
		put: number(func(s *reading.State) *amdgpu.Number { return &s.Memory.VRAM.Used }, mib)},
	{name: "memory.total", max: 1 << 30,
		put: number(func(s *reading.State) *amdgpu.Number { return &s.Memory.VRAM.Total }, mib)},
	{name: "fan.speed", max: 100, put: number(func(s *reading.State) *amdgpu.Number { return &s.Fan.Drive }, .01)},
	{name: "clocks_event_reasons.active", old: "clocks_throttle_reasons.active", max: 1 << 53, put: putReasons},
	{name: "ecc.errors.corrected.volatile.total", max: 1 << 53, put: func(s *reading.State, v float64) {
		total(s).Correctable = amdgpu.Known(v)
		s.RAS.Errors.Correctable = uint64(v)
	}},
	{name: "ecc.errors.uncorrected.volatile.total", max: 1 << 53, put: func(s *reading.State, v float64) {
		total(s).Uncorrectable = amdgpu.Known(v)
		s.RAS.Errors.Uncorrectable = uint64(v)
	}},
	{name: "retired_pages.single_bit_ecc.count", max: 1 << 20, put: replaced},
	{name: "retired_pages.double_bit.count", max: 1 << 20, put: replaced},
	{name: "retired_pages.pending", max: 1 << 20,
		put: func(s *reading.State, v float64) { pages(s).Pending += int(v) }},
	{name: "remapped_rows.correctable", max: 1 << 20, put: replaced},
	{name: "remapped_rows.uncorrectable", max: 1 << 20, put: replaced},
	{name: "remapped_rows.pending", max: 1 << 20,
		put: func(s *reading.State, v float64) { pages(s).Pending += int(v) }},
	{name: "remapped_rows.failure", max: 1 << 20,
		put: func(s *reading.State, v float64) { pages(s).Unreservable += int(v) }},
}

// fill copies the answer into a state.
func (t *Answer) fill(s *reading.State) {
	if t == nil {
		return
	}
	// The link is slow while the GPU idles, so its speed and the GPU's activity must be
	// from the same time.
	s.PCIe.Speed = amdgpu.Number{}
	for _, f := range fields {
		if v, ok := t.Values[f.name]; ok && v >= f.min && v <= f.max {
			f.put(s, v)
		}
	}
}

func number(of func(*reading.State) *amdgpu.Number, times float64) func(*reading.State, float64) {
	return func(s *reading.State, v float64) { *of(s) = amdgpu.Known(v * times) }
}

func clock(domain string) func(*reading.State, float64) {
	return func(s *reading.State, v float64) {
		s.Clocks = append(s.Clocks, amdgpu.Clock{Domain: domain, Hertz: v * megahertz})
	}
}

func clockMax(domain string) func(*reading.State, float64) {
	return func(s *reading.State, v float64) {
		s.ClockRanges = append(s.ClockRanges, amdgpu.ClockRange{Domain: domain, Max: v * megahertz})
	}
}

func engine(kind string) func(*reading.State, float64) {
	return func(s *reading.State, v float64) {
		s.Activity.Engines = append(s.Activity.Engines, amdgpu.Engine{Kind: kind, Busy: v / 100})
	}
}

// total returns the only block with error counts: the whole GPU, since its driver was
// loaded or it was reset.
func total(s *reading.State) *amdgpu.BlockErrors {
	if s.RAS.Errors == nil {
		s.RAS.Errors, s.RAS.Blocks = &amdgpu.Errors{}, []amdgpu.BlockErrors{{Block: "total"}}
	}
	return &s.RAS.Blocks[0]
}

func pages(s *reading.State) *amdgpu.BadPages {
	if s.RAS.BadPages == nil {
		s.RAS.BadPages = &amdgpu.BadPages{}
	}
	return s.RAS.BadPages
}

func replaced(s *reading.State, v float64) {
	n := &pages(s).Replaced
	*n = amdgpu.Known(n.Value + v)
}

// reasons are the bits of clocks_event_reasons.active that mean a limit
// (nvmlClocksEventReason* and nvmlClocksThrottleReason* in nvml.h). Other bits mean an idle
// GPU, or clocks that were set.
var reasons = [...]struct {
	bit     uint64
	name    string
	thermal bool
}{
	{0x04, "sw_power_cap", false}, {0x08, "hw_slowdown", false}, {0x10, "sync_boost", false},
	{0x20, "sw_thermal_slowdown", true}, {0x40, "hw_thermal_slowdown", true}, {0x80, "hw_power_brake_slowdown", false},
}

// putReasons counts a thermal bit for the same share of time as a bit of an AMD GPU.
func putReasons(s *reading.State, v float64) {
	t, limits := &s.Throttling, 0.0
	for _, r := range reasons {
		active := uint64(v)&r.bit != 0
		t.Active = append(t.Active, amdgpu.Throttle{Reason: r.name, Active: active})
		if active && r.thermal {
			limits++
		}
	}
	t.Limits, t.ThermalShare = amdgpu.Known(limits), amdgpu.Known(0)
	if limits > 0 {
		t.ThermalShare = amdgpu.Known(amdgpu.BitShare)
	}
}
