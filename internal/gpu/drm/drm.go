// Package drm checks that a GPU's device nodes work: it opens them as a compute program
// would, and queries the driver of a DRM node. It is the only part of the charm that opens
// such a node. It never sends work, maps memory or changes a setting. Opening a render node
// may wake a suspended GPU, so this runs only on request.
package drm

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Version holds a driver's answer to DRM_IOCTL_VERSION. The numbers belong to its
// interface, not to a release.
type Version struct {
	Name                string // amdgpu, nvidia-drm, nouveau
	Major, Minor, Patch int32
}

func (v Version) String() string {
	return fmt.Sprintf("%s %d.%d.%d", v.Name, v.Major, v.Minor, v.Patch)
}

// version is struct drm_version (include/uapi/drm/drm.h). The lengths are the buffer sizes
// in the request, and the text lengths in the answer.
type version struct {
	major, minor, patch int32
	nameLen             uintptr // __kernel_size_t
	name                *byte
	dateLen             uintptr
	date                *byte
	descLen             uintptr
	desc                *byte
}

// ioctlVersion is DRM_IOWR(0x00, struct drm_version): read and write in the two highest
// bits, the size from bit 16, 'd' from bit 8. Size and layout are for 64-bit machines, as
// are the charm's builds.
const ioctlVersion = 3<<30 | unsafe.Sizeof(version{})<<16 | 'd'<<8

// maxName exceeds the length of any driver's name.
const maxName = 64

var errNotDevice = errors.New("not a character device")

// Open opens a character device for reading and writing, as /dev/kfd must allow, and closes
// it. Errors leave out the path, which the caller has.
func Open(path string) error {
	fd, err := open(path)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// Ask opens a DRM node for reading and writing and queries its driver.
func Ask(path string) (Version, error) {
	fd, err := open(path)
	if err != nil {
		return Version{}, err
	}
	defer unix.Close(fd)
	return ask(func(v *version) unix.Errno {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlVersion, uintptr(unsafe.Pointer(v)))
		return errno
	})
}

func open(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("cannot open it for reading and writing: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("cannot look at it: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		unix.Close(fd)
		return -1, errNotDevice
	}
	return fd, nil
}

// ask sends the request. Tests replace ioctl.
func ask(ioctl func(*version) unix.Errno) (Version, error) {
	name := make([]byte, maxName)
	v := &version{nameLen: maxName, name: &name[0]}
	errno := ioctl(v)
	for errno == unix.EINTR || errno == unix.EAGAIN { // as in libdrm
		errno = ioctl(v)
	}
	runtime.KeepAlive(name)
	switch {
	case errno == unix.ENOTTY:
		return Version{}, fmt.Errorf("it is not a DRM device: %w", errno)
	case errno != 0:
		return Version{}, fmt.Errorf("its driver does not report its version: %w", errno)
	case v.nameLen == 0:
		return Version{}, errors.New("its driver reports no name")
	}
	return Version{string(name[:min(v.nameLen, maxName)]), v.major, v.minor, v.patch}, nil
}
