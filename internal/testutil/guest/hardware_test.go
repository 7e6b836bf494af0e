package guest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestFurtherGPUsAreRemovedEverywhere(t *testing.T) {
	root := hosttest.Host(t, "mi210x4")
	require.NoError(t, RemoveFurtherGPUs(root))
	for pattern, want := range map[string]int{
		"/sys/bus/pci/drivers/amdgpu/0000:*":            GPUs,
		"/sys/class/drm/renderD*":                       GPUs,
		"/dev/dri/renderD*":                             GPUs,
		"/sys/bus/pci/drivers/amdgpu/*/drm/renderD*":    GPUs,
		"/sys/class/drm/card*":                          GPUs + 1, // and the BMC
		"/sys/bus/pci/devices/0000:[28c4]3:00.0/vendor": GPUs,
	} {
		found, err := root.Glob(pattern)
		require.NoError(t, err)
		require.Len(t, found, want, pattern)
	}
	require.Equal(t, []string{"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/card1", "/dev/dri/renderD129", "/dev/dri/card2"},
		Nodes(root))
}

func TestHostWithoutAGPUNeedsNoDevices(t *testing.T) {
	root := hosttest.Host(t, "no-gpu")
	require.Empty(t, Nodes(root))
	require.NoError(t, StandIns(root))
}
