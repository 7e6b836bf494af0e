package gpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestSlotIsNamedByAllThatIsKnown(t *testing.T) {
	for text, s := range map[string]gpu.Slot{
		"GPU 1 (GPU-00a1, 0000:03:00.0)":            {Index: 1, PCI: "0000:03:00.0", UniqueID: "00a1"},
		"GPU 2 (GPU-b2, 0000:03:00.0, partition 3)": {Index: 2, PCI: "0000:03:00.0", Partition: 3, UniqueID: "b2"},
		"GPU 0":              {},
		"GPU 0000:03:00.0-3": {Index: gpu.Missing, PCI: "0000:03:00.0", Partition: 3, UniqueID: "b2"},
	} {
		require.Equal(t, text, s.String())
	}
}

func TestMissingSlotKeepsTheAddress(t *testing.T) {
	for address, want := range map[string]gpu.Slot{
		"0000:03:00.0":    {Index: gpu.Missing, PCI: "0000:03:00.0"},
		"0000:03:00.0-12": {Index: gpu.Missing, PCI: "0000:03:00.0", Partition: 12},
		"0000:03:00.0-0":  {Index: gpu.Missing, PCI: "0000:03:00.0-0"},
		"GPU-gone":        {Index: gpu.Missing, PCI: "GPU-gone"},
		"":                {Index: gpu.Missing},
	} {
		got := gpu.MissingSlot(address)
		require.Equal(t, want, got)
		require.Equal(t, address, got.Address())
	}
}

func TestDiscoveredSlotsHaveNumbersAndNodes(t *testing.T) {
	for _, name := range []string{"amd", "mi300x-cpx", "both-passed"} {
		inv, err := gpu.Discover(hosttest.Host(t, name))
		require.NoError(t, err)
		for _, v := range gpu.Vendors() {
			for i, g := range inv.GPUsOf(v) {
				require.Equal(t, i, g.Index)
				require.Equal(t, g.Render.Path, g.Nodes.Render)
				require.Equal(t, g.Card != nil, g.Nodes.Card != "")
				require.Equal(t, g.Slot, inv.Find(g.Address()).Slot)
			}
		}
		require.Nil(t, inv.Find("0000:ff:00.0"))
	}
}
