package gpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/amd/chips"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// Programs without KFD read the architecture from the table.
func TestTableOfChipsAgreesWithKFD(t *testing.T) {
	compared := map[string]bool{}
	for _, name := range []string{"amd", "apu-gfx1103", "mi210x4", "mi300x-cpx"} {
		for _, g := range discover(t, hosttest.Host(t, name)).GPUsOf(gpu.AMD) {
			require.Equal(t, g.GFX, chips.Of(g.DeviceID).GFX, "%s %04x", name, g.DeviceID)
			compared[g.GFX] = true
		}
	}
	require.Len(t, compared, 4, compared)
	require.Zero(t, chips.Of(0x10de))
}
