package drm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The values of include/uapi/drm/drm.h on 64-bit machines: 40 bytes would be
// another request, which the kernel refuses.
func TestRequestIsTheKernels(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(version{}))
	require.EqualValues(t, 16, unsafe.Offsetof(version{}.nameLen))
	require.EqualValues(t, 24, unsafe.Offsetof(version{}.name))
	require.EqualValues(t, 0xc0406400, uint64(ioctlVersion))
}

// Every machine has character devices that are no GPUs.
func TestOtherDevicesAreNotDRM(t *testing.T) {
	require.NoError(t, Open("/dev/null"))
	_, err := Ask("/dev/null")
	require.EqualError(t, err, "it is not a DRM device: inappropriate ioctl for device")
	require.ErrorIs(t, err, unix.ENOTTY)
}

func TestOpenErrorHasTheReason(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Symlink("/dev/null", link))
	for path, want := range map[string]string{
		filepath.Join(dir, "gone"): "cannot open it for reading and writing: no such file or directory",
		link:                       "cannot open it for reading and writing: too many levels of symbolic links",
		dir:                        "cannot open it for reading and writing: is a directory",
		file:                       "not a character device",
	} {
		require.EqualError(t, Open(path), want)
		_, err := Ask(path)
		require.EqualError(t, err, want)
	}
}

func TestForbiddenNodeIsAnError(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may open everything")
	}
	path := filepath.Join(t.TempDir(), "node")
	require.NoError(t, os.WriteFile(path, nil, 0))
	require.ErrorIs(t, Open(path), unix.EACCES)
}

// A node without a driver behind it: the number is for nothing.
func TestNodeWithoutADriver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "renderD128")
	if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(511, 250))); err != nil {
		t.Skipf("making device nodes takes root outside a container: %v", err)
	}
	_, err := Ask(path)
	if os.Geteuid() == 0 && strings.Contains(err.Error(), "not permitted") {
		t.Skip("this container may not open the device")
	}
	require.EqualError(t, err, "cannot open it for reading and writing: no such device or address")
}

func TestAnswers(t *testing.T) {
	kernel := func(name string, errnos ...unix.Errno) func(*version) unix.Errno {
		return func(v *version) unix.Errno {
			if len(errnos) > 0 {
				e := errnos[0]
				errnos = errnos[1:]
				if e != 0 {
					return e
				}
			}
			copy(unsafe.Slice(v.name, v.nameLen), name)
			v.nameLen = uintptr(len(name)) // even if there was less room
			v.major, v.minor, v.patch = 3, 57, 0
			return 0
		}
	}
	v, err := ask(kernel("amdgpu", unix.EINTR, unix.EAGAIN, 0))
	require.NoError(t, err)
	require.Equal(t, Version{"amdgpu", 3, 57, 0}, v)
	require.Equal(t, "amdgpu 3.57.0", v.String())

	v, err = ask(kernel(strings.Repeat("x", 200)))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("x", maxName), v.Name)

	_, err = ask(kernel(""))
	require.EqualError(t, err, "its driver reports no name")
	_, err = ask(kernel("amdgpu", unix.ENODEV))
	require.EqualError(t, err, "its driver does not report its version: no such device")
}

// The real thing, if there is a GPU.
func TestRenderNodesOfThisMachine(t *testing.T) {
	nodes, err := filepath.Glob("/dev/dri/renderD*")
	require.NoError(t, err)
	if len(nodes) == 0 {
		t.Skip("no render node in /dev/dri")
	}
	for _, n := range nodes {
		v, err := Ask(n)
		if err != nil && os.Geteuid() != 0 {
			require.ErrorIs(t, err, unix.EACCES, n)
			continue
		}
		require.NoError(t, err, n)
		require.NotEmpty(t, v.Name, n)
	}
}
