//go:build kubernetes

package kubernetes

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/lease"
)

// startsAgain has a part end and start, while one pod has a GPU and another is made.
func startsAgain(t *testing.T, p *part, signal syscall.Signal) {
	unit(t, 2)
	pod(t, "before", 1)
	require.Equal(t, nodes(0), opened(t, "before"))
	held(t, 0, "default/before/work")
	was := statusOf(t, "before").ContainerStatuses[0].ContainerID
	p.stop(t, signal)
	pod(t, "between", 1)
	p.start(t)
	require.Equal(t, nodes(1), opened(t, "between"))
	held(t, 1, "default/between/work")
	held(t, 0, "default/before/work")
	require.Equal(t, was, statusOf(t, "before").ContainerStatuses[0].ContainerID, "it runs on")
	pod(t, "third", 1)
	pending(t, "third")
	end(t, "before")
	require.Equal(t, nodes(0), opened(t, "third"))
	held(t, 0, "default/third/work")
	end(t, "third")
	end(t, "between")
	held(t, 0, "")
	held(t, 1, "")
}

// held waits until the GPU's lease says who has it, "" for nobody.
func held(t *testing.T, index int, holder string) {
	t.Helper()
	inventory, err := gpu.Discover(host.Root("/"))
	require.NoError(t, err)
	g := inventory.Of(gpu.AMD)[index]
	leases := lease.Leases{Dir: lease.DefaultDir, GPUs: []string{gpu.Slot(g.PCI, g.Partition)}}
	eventually(t, render(index)+" is held by "+holder, func() (string, bool) {
		states, _, err := leases.Read()
		if err != nil {
			return err.Error(), false
		}
		now := ""
		if states[0].Held {
			now = states[0].Container
		}
		return "now: " + now, now == holder
	})
}
