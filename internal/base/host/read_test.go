package host_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/testutil/hosttest"
)

func TestReadFileReadsRegularFilesOnlyAndWaitsForNobody(t *testing.T) {
	r := hosttest.Root(t)
	long := strings.Repeat("x", 100_000)
	hosttest.Put(t, r, "/state/file", long)
	hosttest.Link(t, r, "/state/link", "file")
	for _, name := range []string{"/state/file", "/state/link"} {
		data, err := r.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, long, string(data))
	}
	require.NoError(t, unix.Mkfifo(r.Path("/state/pipe"), 0o600)) // nobody writes
	hosttest.Link(t, r, "/state/link-to-pipe", "pipe")
	for _, name := range []string{"/state/pipe", "/state/link-to-pipe", "/state"} {
		_, err := r.ReadFile(name)
		require.ErrorIs(t, err, host.ErrNotFile)
		require.ErrorContains(t, err, name+": not a regular file")
	}
	data, err := host.Root("").ReadFile("/proc/self/stat") // whose size is 0
	require.NoError(t, err)
	require.NotEmpty(t, data)
}
