package series

import (
	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
)

// putDCGM adds the contract's values again under NVIDIA's names and units.
func putDCGM(r *rows, g *monitor.GPU) {
	s, uuid, model := &g.State, g.State.Identity.UUID, g.Slot.Model
	const mib = 1 << 20
	vram := s.ProgramMemory()
	for _, v := range []struct {
		to     *Family
		number amdgpu.Number
		per    float64
	}{
		{dcgmTemp, s.Temperature.Now, 1}, {dcgmPower, s.Power.Now, 1},
		{dcgmUsed, vram.Used, mib}, {dcgmTotal, vram.Total, mib},
	} {
		if v.number.Known {
			r.put(v.to, v.number.Value/v.per, uuid, model)
		}
	}
	if a := s.Activity.Graphics; a.Known {
		r.put(dcgmUtil, percent(a.Value), uuid, model)
	}
	if a := s.Activity.Memory; a.Known {
		r.put(dcgmMemCopy, percent(a.Value), uuid, model)
	}
	if vram.Used.Known && vram.Total.Known && vram.Used.Value <= vram.Total.Value {
		r.put(dcgmFree, (vram.Total.Value-vram.Used.Value)/mib, uuid, model)
	}
	if len(s.RAS.Blocks) > 0 {
		r.put(dcgmDBE, float64(s.RAS.Errors.Uncorrectable), uuid, model)
	}
	if t := g.Traffic; t != nil {
		r.put(dcgmRx, t.Received/1000, uuid, model)
		r.put(dcgmTx, t.Sent/1000, uuid, model)
	}
}
