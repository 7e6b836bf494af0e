package nvidiagpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
)

// Units are those of AMD's GPUs: watts, hertz, bytes and shares.
func TestAnswerIsReadInTheUnitsOfAState(t *testing.T) {
	var s reading.State
	(&Answer{Values: map[string]float64{
		"temperature.gpu": 61, "temperature.gpu.tlimit": 29, "temperature.memory": 70,
		"power.draw": 312.5, "power.limit": 400, "power.max_limit": 450,
		"clocks.current.sm": 1410, "clocks.max.sm": 1980, "clocks.current.memory": 2619, "clocks.max.memory": 2620,
		"utilization.gpu": 50, "utilization.memory": 25, "utilization.encoder": 10, "utilization.decoder": 20,
		"pcie.link.gen.current": 4, "memory.used": 20310, "memory.total": 81559, "fan.speed": 30,
		"clocks_event_reasons.active":         0x24,
		"ecc.errors.corrected.volatile.total": 3, "ecc.errors.uncorrected.volatile.total": 2,
		"retired_pages.single_bit_ecc.count": 1, "retired_pages.double_bit.count": 2, "retired_pages.pending": 1,
		"remapped_rows.correctable": 4, "remapped_rows.uncorrectable": 8, "remapped_rows.pending": 1, "remapped_rows.failure": 1,
	}}).fill(&s)
	known := func(v float64) amdgpu.Number { return amdgpu.Known(v) }
	gpu := amdgpu.Temperature{Sensor: gpuSensor, Now: known(61), Critical: known(90)}
	require.Equal(t, gpu, s.Temperature)
	require.Equal(t, []amdgpu.Temperature{gpu, {Sensor: "mem", Now: known(70)}}, s.Temperatures)
	require.Equal(t, []amdgpu.Number{known(312.5), known(400), known(450)}, []amdgpu.Number{s.Power.Now, s.Power.Cap, s.Power.CapMax})
	require.Equal(t, []amdgpu.Clock{{Domain: "gfx", Hertz: 1410e6}, {Domain: "mem", Hertz: 2619e6}}, s.Clocks)
	require.Equal(t, []amdgpu.ClockRange{{Domain: "gfx", Max: 1980e6}, {Domain: "mem", Max: 2620e6}}, s.ClockRanges)
	require.Equal(t, []amdgpu.Number{known(.5), known(.25), known(.3)}, []amdgpu.Number{s.Activity.Graphics, s.Activity.Memory, s.Fan.Drive})
	require.Equal(t, []amdgpu.Engine{{Kind: "encoder", Busy: .1}, {Kind: "decoder", Busy: .2}}, s.Activity.Engines)
	require.Equal(t, known(16e9), s.PCIe.Speed)
	require.Equal(t, []amdgpu.Number{known(20310 << 20), known(81559 << 20)}, []amdgpu.Number{s.Memory.VRAM.Used, s.Memory.VRAM.Total})
	require.Equal(t, &amdgpu.Errors{Correctable: 3, Uncorrectable: 2}, s.RAS.Errors)
	require.Equal(t, []amdgpu.BlockErrors{{Block: "total", Correctable: known(3), Uncorrectable: known(2)}}, s.RAS.Blocks)
	require.Equal(t, known(15), s.RAS.BadPages.Replaced)
	require.Equal(t, []int{2, 1}, []int{s.RAS.BadPages.Pending, s.RAS.BadPages.Unreservable})
	var active []string
	for _, r := range s.Throttling.Active {
		if r.Active {
			active = append(active, r.Reason)
		}
	}
	require.Equal(t, []string{"sw_power_cap", "sw_thermal_slowdown"}, active)
	require.Equal(t, []amdgpu.Number{known(1), known(amdgpu.BitShare)}, []amdgpu.Number{s.Throttling.Limits, s.Throttling.ThermalShare})
}

// nvidia-smi prints such values of GPUs that are lost, or that have no memory sensor.
func TestImpossibleValuesAreUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		values map[string]float64
		read   func(reading.State) amdgpu.Number
		want   amdgpu.Number
	}{
		"the highest share":        {map[string]float64{"utilization.gpu": 100}, func(s reading.State) amdgpu.Number { return s.Activity.Graphics }, amdgpu.Known(1)},
		"a higher share":           {map[string]float64{"utilization.gpu": 101}, func(s reading.State) amdgpu.Number { return s.Activity.Graphics }, amdgpu.Number{}},
		"a negative share":         {map[string]float64{"utilization.gpu": -1}, func(s reading.State) amdgpu.Number { return s.Activity.Graphics }, amdgpu.Number{}},
		"the first PCIe":           {map[string]float64{"pcie.link.gen.current": 1}, func(s reading.State) amdgpu.Number { return s.PCIe.Speed }, amdgpu.Known(2.5e9)},
		"the last PCIe":            {map[string]float64{"pcie.link.gen.current": float64(len(generations))}, func(s reading.State) amdgpu.Number { return s.PCIe.Speed }, amdgpu.Known(generations[len(generations)-1] * 1e9)},
		"a later PCIe":             {map[string]float64{"pcie.link.gen.current": float64(len(generations)) + 1}, func(s reading.State) amdgpu.Number { return s.PCIe.Speed }, amdgpu.Number{}},
		"no link":                  {map[string]float64{"pcie.link.gen.current": 0}, func(s reading.State) amdgpu.Number { return s.PCIe.Speed }, amdgpu.Number{}},
		"a limit without its base": {map[string]float64{"temperature.gpu.tlimit": 9}, func(s reading.State) amdgpu.Number { return s.Temperature.Critical }, amdgpu.Number{}},
		"beyond the limit":         {map[string]float64{"temperature.gpu": 95, "temperature.gpu.tlimit": -5}, func(s reading.State) amdgpu.Number { return s.Temperature.Critical }, amdgpu.Known(90)},
	} {
		var s reading.State
		(&Answer{Values: c.values}).fill(&s)
		require.Equal(t, c.want, c.read(s), name)
	}
	var s reading.State
	(&Answer{Values: map[string]float64{"temperature.memory": 0}}).fill(&s)
	require.Empty(t, s.Temperatures, "0 is a missing sensor")
	s.PCIe.Speed = amdgpu.Known(8e9)
	(*Answer)(nil).fill(&s)
	require.Equal(t, amdgpu.Known(8e9), s.PCIe.Speed, "without an answer nothing changes")
}
