package monitor

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
)

// xcp_metrics and the GPU's table may both report a partition, as they do of engines.
func TestPartitionWithItsOwnLimitsIsShownOnce(t *testing.T) {
	all := []GPU{divided(0, false), divided(1, true)}
	own := amdgpu.Limited{Reason: "ppt", Partition: 1, Sum: 99}
	all[1].State.Throttling.Limited = []amdgpu.Limited{own}
	all[1].State.Activity.Engines = []amdgpu.Engine{{Kind: "gfx", Partition: 1, Busy: .9}}
	divide(all)
	require.Equal(t, []amdgpu.Limited{own}, all[1].State.Throttling.Limited)
}

// Snapshots that share a reading divide it at the same time, each for itself.
func TestSharedReadingIsNotChanged(t *testing.T) {
	first, second := divided(0, false), divided(1, true)
	second.State.Throttling.Limited = append(make([]amdgpu.Limited, 0, 8), amdgpu.Limited{Reason: "any", Partition: 1, Sum: 7})
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { divide([]GPU{first, second}) })
	}
	both.Wait()
	require.Equal(t, amdgpu.Limited{}, second.State.Throttling.Limited[:2][1])
	require.Len(t, first.State.Activity.Engines, 8)
}
