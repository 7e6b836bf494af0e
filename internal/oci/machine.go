package oci

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxFile bounds every file that is read: 16 MiB, where the largest config.json
// that Concourse makes has about 13 KiB.
const maxFile = 16 << 20

// machine is what the wrapper needs of the system and a test wants to replace:
// device nodes and execve need root, or can't be undone; and what must not be
// asked of a dead file system.
type machine struct {
	lstat func(path string, st *unix.Stat_t) error
	mknod func(path string, mode uint32, dev int) error
	exec  func(path string, argv, env []string) error
	statx func(dirfd int, path string, flags, mask int, st *unix.Statx_t) error
	probe func(path string, limit time.Duration) string
	now   func() time.Time
	euid  uint32
	self  string // this very program, for the loop guard
}

func realMachine() machine {
	return machine{
		lstat: unix.Lstat,
		mknod: unix.Mknod,
		exec:  syscall.Exec,
		statx: unix.Statx,
		probe: probe,
		now:   time.Now,
		euid:  uint32(os.Geteuid()),
		self:  "/proc/self/exe",
	}
}

// readRegular reads a regular file of at most maxFile bytes. With noFollow the
// last part of the path must not be a symbolic link. It never waits for a pipe.
func readRegular(path string, noFollow bool) ([]byte, unix.Stat_t, error) {
	flags := unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK
	if noFollow {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := unix.Open(path, flags, 0)
	if err != nil {
		return nil, unix.Stat_t{}, err
	}
	return readFD(fd)
}

// readFD reads an open regular file to its end and closes it. It makes no
// os.File, which would start the poller of Go's runtime.
func readFD(fd int) ([]byte, unix.Stat_t, error) {
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, st, errors.New("it is not a regular file")
	}
	if st.Size > maxFile {
		return nil, st, fmt.Errorf("it has %d bytes, more than the %d allowed", st.Size, maxFile)
	}
	// As many bytes as it had then: one that grows meanwhile is read as it was.
	data := make([]byte, st.Size)
	for at := 0; at < len(data); {
		n, err := unix.Read(fd, data[at:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, st, err
		}
		if n == 0 { // it was cut
			return data[:at], st, nil
		}
		at += n
	}
	return data, st, nil
}

// writeNew makes a file of mode 0600 in place of one that a killed process
// with this one's number may have left.
func writeNew(path string, data []byte) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open(path, flags, 0o600)
	if errors.Is(err, unix.EEXIST) {
		if err = unix.Unlink(path); err == nil {
			fd, err = unix.Open(path, flags, 0o600)
		}
	}
	if err != nil {
		return err
	}
	err = writeAll(fd, data)
	return cmp.Or(err, unix.Close(fd))
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
