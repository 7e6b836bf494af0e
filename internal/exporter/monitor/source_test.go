package monitor

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestForeignGPUsAreNotReported(t *testing.T) {
	for _, name := range []string{"nvidia-only", "bmc-vfio", "no-gpu"} {
		t.Run(name, func(t *testing.T) {
			list, _, err := Of(hosttest.Host(t, name), gpu.AMD)()
			require.NoError(t, err)
			require.Empty(t, list)
		})
	}
}

func TestBareCaptureListsAllGPUsOfTheDriver(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	want, _, err := All(r)()
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(r.Path("/dev")))
	got, _, err := All(r)()
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i := range got {
		require.Equal(t, want[i].PCI, got[i].PCI)
		require.Equal(t, want[i].Sysfs, got[i].Sysfs)
		require.Contains(t, got[i].Model, "MI210")
		require.Equal(t, want[i].UniqueID, got[i].UniqueID)
		require.Equal(t, i, got[i].Index)
	}
}

func TestBareCaptureWithoutSysfsIsAnError(t *testing.T) {
	_, _, err := All(host.Root(t.TempDir()))()
	require.ErrorIs(t, err, os.ErrNotExist)
}
