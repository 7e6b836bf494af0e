package monitor

import (
	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
)

// divide assigns each partition of a GPU its own part of the GPU's table. No value appears
// twice, and values of partitions outside this unit are dropped. A partition with its own
// table of engines (xcp_metrics) keeps it.
func divide(gpus []GPU) {
	whole := map[string]*reading.State{}
	number := map[string]int{}
	for i := range gpus {
		g := &gpus[i]
		number[g.Slot.Sysfs]++
		if !g.Shared {
			s := g.State
			whole[g.Slot.Sysfs] = &s
		}
	}
	for i := range gpus {
		g := &gpus[i]
		all := whole[g.Slot.Sysfs]
		if number[g.Slot.Sysfs] == 1 && all.Division.Partitions.Value <= 1 {
			continue
		}
		s := &g.State
		if !g.Shared {
			g.Socket, s.Activity.Engines, s.Throttling.Limited = s.Activity.Graphics, nil, nil
		}
		if len(s.Throttling.Limited) == 0 {
			s.Throttling.Limited = filter(all.Throttling.Limited,
				func(l amdgpu.Limited) bool { return l.Partition == g.Slot.Partition })
		}
		if len(s.Activity.Engines) == 0 {
			s.Activity.Engines = filter(all.Activity.Engines,
				func(e amdgpu.Engine) bool { return e.Partition == g.Slot.Partition })
		}
		s.Activity.Graphics = mean(s.Activity.Engines, "gfx")
	}
}

// filter returns the values that belong to a partition in a new slice, because other
// goroutines may read the original.
func filter[T any](all []T, belongs func(T) bool) (own []T) {
	for _, v := range all {
		if belongs(v) {
			own = append(own, v)
		}
	}
	return own
}

// mean returns the average busy time of all engines of a kind.
func mean(engines []amdgpu.Engine, kind string) amdgpu.Number {
	sum, n := 0.0, 0.0
	for _, e := range engines {
		if e.Kind == kind {
			sum += e.Busy
			n++
		}
	}
	if n == 0 {
		return amdgpu.Number{}
	}
	return amdgpu.Known(sum / n)
}
