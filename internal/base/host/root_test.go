package host_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestRootIsAPrefix(t *testing.T) {
	for _, real := range []host.Root{"", "/", "//", "/."} {
		require.True(t, real.Real())
		require.Equal(t, "/etc/x", real.Path("/etc/x"))
		require.Equal(t, "/etc/x", real.Rel("/etc/x"))
	}
	for _, r := range []host.Root{"/srv/unit", "/srv/unit/"} {
		require.False(t, r.Real())
		require.Equal(t, "/srv/unit/etc/x", r.Path("/etc/x"))
		require.Equal(t, "/etc/x", r.Rel("/srv/unit/etc/x"))
	}
}

func TestGlobAndResolveGiveMachinePaths(t *testing.T) {
	r := hosttest.Root(t)
	hosttest.Put(t, r, "/sys/devices/pci/card1", "")
	hosttest.Put(t, r, "/sys/devices/pci/card10", "")
	require.NoError(t, r.MkdirAll("/sys/class/drm", 0o755))
	require.NoError(t, os.Symlink("../../devices/pci/card1", r.Path("/sys/class/drm/card1")))
	found, err := r.Glob("/sys/devices/pci/card*")
	require.NoError(t, err)
	require.Equal(t, []string{"/sys/devices/pci/card1", "/sys/devices/pci/card10"}, found)
	end, err := r.Resolve("/sys/class/drm/card1")
	require.NoError(t, err)
	require.Equal(t, "/sys/devices/pci/card1", end)
	text, err := r.Readlink("/sys/class/drm/card1")
	require.NoError(t, err)
	require.Equal(t, "../../devices/pci/card1", text)
	_, err = r.Resolve("/sys/class/drm/card2")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestReadTextCutsWhiteSpaceAndReportsWhatIsMissing(t *testing.T) {
	r := hosttest.Root(t)
	hosttest.Put(t, r, "/sys/x", "  0x1002\n")
	s, err := r.ReadText("/sys/x")
	require.NoError(t, err)
	require.Equal(t, "0x1002", s)
	_, err = r.ReadText("/sys/y")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.True(t, r.Exists("/sys/x"))
	require.False(t, r.Exists("/sys/y"))
}

func TestRemoveOfAMissingFileSucceeds(t *testing.T) {
	r := hosttest.Root(t)
	require.NoError(t, r.Remove("/nothing"))
	hosttest.Put(t, r, "/dir/file", "")
	require.Error(t, r.Remove("/dir"))
	require.NoError(t, r.Remove("/dir/file"))
	require.NoError(t, r.Remove("/dir"))
}

func TestReadFileReadsOnlyRegularFilesAndNeverWaits(t *testing.T) {
	r := hosttest.Root(t)
	long := strings.Repeat("x", 100_000)
	hosttest.Put(t, r, "/state/file", long)
	hosttest.Link(t, r, "/state/link", "file")
	for _, name := range []string{"/state/file", "/state/link"} {
		data, err := r.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, long, string(data))
	}
	require.NoError(t, unix.Mkfifo(r.Path("/state/pipe"), 0o600)) // no one writes
	hosttest.Link(t, r, "/state/link-to-pipe", "pipe")
	for _, name := range []string{"/state/pipe", "/state/link-to-pipe", "/state"} {
		_, err := r.ReadFile(name)
		require.ErrorIs(t, err, host.ErrNotFile)
		require.ErrorContains(t, err, name+": not a regular file")
	}
	data, err := host.Root("").ReadFile("/proc/self/stat") // with a size that is 0
	require.NoError(t, err)
	require.NotEmpty(t, data)
}
