package amdgpu

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestDescriptorsFollowTheDevice(t *testing.T) {
	root := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n", "hwmon/hwmon4/name": "amdgpu\n", "hwmon/hwmon4/power1_input": "90000000\n"})
	r, now := readerOf(t, root)
	require.Equal(t, Known(90), r.Read().Power.Now)

	// The driver is bound again: another hwmon.
	require.NoError(t, os.RemoveAll(root.Path(dev+"/hwmon/hwmon4")))
	hosttest.Put(t, root, dev+"/hwmon/hwmon7/name", "amdgpu\n")
	hosttest.Put(t, root, dev+"/hwmon/hwmon7/power1_input", "95000000\n")
	require.Equal(t, Known(95), r.Read().Power.Now)

	// The device is removed and found again: another directory.
	require.NoError(t, os.RemoveAll(root.Path(dev)))
	require.False(t, r.Read().Alive)
	hosttest.Put(t, root, dev+"/gpu_busy_percent", "77\n")
	*now = now.Add(2 * lookEvery)
	require.Equal(t, Known(.77), r.Read().Activity.Graphics)

	// A file that is written again beside the old one.
	hosttest.Put(t, root, dev+"/new", "78\n")
	require.NoError(t, os.Rename(root.Path(dev+"/new"), root.Path(dev+"/gpu_busy_percent")))
	require.Equal(t, Known(.78), r.Read().Activity.Graphics)
}

// Whoever closes a reader may be late: another one may have it read once more.
func TestClosedReaderOpensItsFilesAgain(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	r, _ := readerOf(t, exportertest.Put(t, exportertest.Sensors("edge", 40, 100)))
	before := open()
	require.Equal(t, Known(40), r.Read().Temperature.Now)
	require.Greater(t, open(), before)
	r.Close()
	require.Equal(t, before, open())
	require.Equal(t, Known(40), r.Read().Temperature.Now)
	r.Close()
	require.Equal(t, before, open())
}
