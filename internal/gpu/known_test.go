package gpu

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// asReal discovers below a root as on a real machine, with files that may hang. A command,
// if given, reads what is new.
func asReal(t *testing.T, r host.Root, reader ...string) (inv Inventory) {
	require.NoError(t, withKnown(r, reader, func(f files) (err error) {
		inv, err = discover(f)
		return err
	}))
	fillNames(r, &inv)
	return inv
}

// hangs answers for no file.
var hangs = []string{"sh", "-c", "cat >/dev/null; echo '{}'"}

func TestKnownGPUIsNotReadAgain(t *testing.T) {
	for _, name := range hosttest.HostNames() {
		r := hosttest.Host(t, name)
		want, err := Discover(r)
		require.NoError(t, err)
		require.Equal(t, want, asReal(t, r), name)
		require.Equal(t, want, asReal(t, r, hangs...), name)
	}
}

func TestUnknownGPUThatHangsIsUnusable(t *testing.T) {
	r := hosttest.ManyGPUs(t, 2)
	inv := asReal(t, r, hangs...)
	require.Empty(t, inv.GPUs)
	for _, l := range inv.Unusable {
		require.Equal(t, Hangs, l.Reason)
		require.Equal(t, "AMD GPU", l.Model)
	}
	require.Len(t, inv.Unusable, 2)
	other := hosttest.ManyGPUs(t, 2)
	require.NoError(t, os.Remove(other.Path("/dev/dri/renderD129")))
	inv = asReal(t, other, hangs...)
	require.Equal(t, []Reason{Hangs, NotPassedThrough}, []Reason{inv.Unusable[0].Reason, inv.Unusable[1].Reason})
	require.Len(t, asReal(t, r).GPUs, 2, "it answers again, and the process that hung has ended")
}

// A file that is another one by now must be read again.
func TestReplacedGPUIsReadAgain(t *testing.T) {
	r := hosttest.ManyGPUs(t, 1)
	require.Equal(t, "9c31f07ad2480000", asReal(t, r).GPUs[0].UniqueID)
	file := asReal(t, r).GPUs[0].Sysfs + "/unique_id"
	require.NoError(t, r.WriteFile(file, []byte("00000000000000aa\n"), 0o644))
	require.Equal(t, "00000000000000aa", asReal(t, r).GPUs[0].UniqueID)

	dir := asReal(t, r).GPUs[0].Sysfs
	require.NoError(t, os.WriteFile(r.Path(dir+"/uevent"), []byte("DRIVER=vfio-pci\nPCI_CLASS=120000\nPCI_ID=1002:74A1\nPCI_SLOT_NAME=0000:04:00.0\n"), 0o644))
	require.NoError(t, os.Remove(r.Path(dir+"/driver")))
	hosttest.Link(t, r, dir+"/driver", "../../../../bus/pci/drivers/vfio-pci")
	inv := asReal(t, r)
	require.Empty(t, inv.GPUs, "another driver is bound")
	require.Equal(t, VFIO, inv.Unusable[0].Reason)
}

func TestDamagedFileOfKnownGPUsIsIgnored(t *testing.T) {
	r := hosttest.ManyGPUs(t, 1)
	hosttest.Put(t, r, knownFile, "{")
	require.Len(t, asReal(t, r).GPUs, 1)
}

// A process that can't be started is not a reason to be without GPUs.
func TestFilesAreReadDirectlyIfNoReaderStarts(t *testing.T) {
	r := hosttest.ManyGPUs(t, 1)
	require.Len(t, asReal(t, r, "/nonexistent").GPUs, 1)
}

func TestPartitionModeIsReadEachTime(t *testing.T) {
	r := hosttest.ManyGPUs(t, 1)
	dir := asReal(t, r).GPUs[0].Sysfs
	for _, want := range []string{"SPX", "CPX"} {
		hosttest.Put(t, r, dir+"/current_compute_partition", want+"\n")
		require.NoError(t, withKnown(r, nil, func(f files) error {
			if got := changing(f, dir+"/current_compute_partition"); len(f.known.requested) == 0 {
				require.Equal(t, want, got)
			}
			return nil
		}))
	}
}
