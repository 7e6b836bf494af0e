package sysfile

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

func newSet(t *testing.T, limit int64) (*Set, string) {
	dir := t.TempDir()
	l := &Limit{}
	l.left.Store(limit)
	return NewSet(host.Root(dir), l, &atomic.Pointer[string]{}), dir
}

func TestOpenDescriptorIsReadAgain(t *testing.T) {
	for name, limit := range map[string]int64{"kept": 5, "no descriptor to spare": 0} {
		t.Run(name, func(t *testing.T) {
			s, dir := newSet(t, limit)
			f := s.File("/x")
			_, err := f.Read()
			require.ErrorIs(t, err, unix.ENOENT)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "x"), []byte("1\n"), 0o644))
			_, err = f.Read()
			require.ErrorIs(t, err, unix.ENOENT, "it was absent")
			s.Retry()
			for _, text := range []string{"1\n", "22\n"} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "x"), []byte(text), 0o644))
				b, err := f.Read()
				require.NoError(t, err)
				require.Equal(t, text, string(b))
			}
			require.Equal(t, limit > 0, f.fd >= 0)
			require.Equal(t, "x", *s.at.Load())
			s.Close()
			require.Equal(t, limit, s.limit.left.Load())
		})
	}
}

func TestDirectoryIsAnError(t *testing.T) {
	s, dir := newSet(t, 5)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "x"), 0o755))
	_, err := s.File("/x").Read()
	require.ErrorIs(t, err, unix.EISDIR)
}

// A real sysfs: the attribute of a device that goes gives ENODEV through the
// old descriptor, and its successor of the same name is found.
func TestFilesOfAReturnedDeviceAreOpenedAgain(t *testing.T) {
	const device = "rocmtest0"
	ip := func(args ...string) error { return exec.Command("ip", append([]string{"link"}, args...)...).Run() }
	kind := ""
	for _, k := range []string{"dummy", "ifb", "bridge"} {
		if os.Getuid() == 0 && ip("add", device, "type", k) == nil {
			kind = k
			break
		}
	}
	if kind == "" {
		t.Skip("no network device can be made here")
	}
	defer ip("del", device)
	l := &Limit{}
	l.left.Store(5)
	s := NewSet("/", l, &atomic.Pointer[string]{})
	f := s.File("/sys/class/net/" + device + "/mtu")
	b, err := f.Read()
	if err != nil {
		t.Skipf("sysfs does not show this network: %v", err)
	}
	require.Equal(t, "1500\n", string(b))
	before := f.fd
	require.NoError(t, ip("del", device))
	_, err = f.Read()
	require.ErrorIs(t, err, unix.ENOENT)
	require.NoError(t, ip("add", device, "type", kind))
	s.Retry()
	b, err = f.Read()
	require.NoError(t, err)
	require.Equal(t, "1500\n", string(b))
	require.GreaterOrEqual(t, before, 0)
	s.Close()
}

// The kernel returns a list of /proc and of control groups in pieces of a page.
func TestListsAreReadToTheirEnd(t *testing.T) {
	page := make([]byte, 1<<20)
	n, err := Fill("/proc/self/smaps", page)
	require.NoError(t, err)
	require.Greater(t, n, maxAttribute)
	one, err := ReadInto("/proc/self/smaps", page)
	require.NoError(t, err)
	require.Less(t, one, n, "one read returns less, which makes this a test")
	n, err = Fill("/proc/self/smaps", page[:5000])
	require.NoError(t, err)
	require.Equal(t, 5000, n)
	_, err = Fill("/proc/self/none", page)
	require.ErrorIs(t, err, unix.ENOENT)
}
