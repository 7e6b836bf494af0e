package monitor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
)

// divided is partition n of a GPU. Its table reports two engines of each of its four
// partitions.
func divided(n int, shared bool) GPU {
	g := GPU{Record: pool.Record{Slot: gpu.Slot{Partition: n, Sysfs: "/gpu"}}, Shared: shared}
	if shared {
		return g
	}
	s := &g.State
	s.Division.Partitions, s.Activity.Graphics, s.Activity.Memory = amdgpu.Known(4), amdgpu.Known(.5), amdgpu.Known(.25)
	for p := range 4 {
		for i := range 2 {
			s.Activity.Engines = append(s.Activity.Engines, amdgpu.Engine{Kind: "gfx", Instance: i, Partition: p, Busy: float64(p+i) / 10})
		}
		s.Throttling.Limited = append(s.Throttling.Limited, amdgpu.Limited{Reason: "ppt", Partition: p, Sum: float64(p)})
	}
	return g
}

func TestEachPartitionHasItsOwnPartOfTheTable(t *testing.T) {
	own := amdgpu.Engine{Kind: "gfx", Partition: 2, Busy: .9} // of xcp_metrics
	all := []GPU{divided(0, false), divided(1, true), divided(2, true), divided(3, true)}
	all[2].State.Activity.Engines = []amdgpu.Engine{own}
	divide(all)
	require.Equal(t, amdgpu.Known(.5), all[0].Socket)
	require.Equal(t, amdgpu.Known(.25), all[0].State.Activity.Memory, "the memory controller is the whole GPU's")
	for p, busy := range []float64{.05, .15, .9, .35} {
		require.InDelta(t, busy, all[p].State.Activity.Graphics.Value, 1e-9, p)
		require.Equal(t, []amdgpu.Limited{{Reason: "ppt", Partition: p, Sum: float64(p)}}, all[p].State.Throttling.Limited)
		require.Equal(t, p == 0, all[p].Socket.Known)
	}
	require.Equal(t, []amdgpu.Engine{own}, all[2].State.Activity.Engines, "told twice and shown once")
}

func TestForeignPartitionsAreNotShown(t *testing.T) {
	all := []GPU{divided(3, false)}
	divide(all)
	require.Len(t, all[0].State.Activity.Engines, 2)
	require.InDelta(t, .35, all[0].State.Activity.Graphics.Value, 1e-9)
	require.Equal(t, .5, all[0].Socket.Value)
}

func TestWholeGPUIsUnchanged(t *testing.T) {
	one := divided(0, false)
	one.State.Division.Partitions = amdgpu.Known(1)
	all := []GPU{one}
	divide(all)
	require.Equal(t, one, all[0])
}
