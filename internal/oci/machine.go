package oci

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxFile bounds every file that is read: 16 MiB, where the largest config.json
// that Concourse makes has about 13 KiB.
const maxFile = 16 << 20

// machine is what the wrapper needs of the system and a test wants to replace:
// device nodes and execve need root, or can't be undone.
type machine struct {
	lstat func(path string, st *unix.Stat_t) error
	mknod func(path string, mode uint32, dev int) error
	exec  func(path string, argv, env []string) error
	now   func() time.Time
	euid  uint32
	self  string // this very program, for the loop guard
}

func realMachine() machine {
	return machine{
		lstat: unix.Lstat,
		mknod: unix.Mknod,
		exec:  syscall.Exec,
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
	return readFD(fd, path)
}

// readFD reads an open regular file to its end and closes it.
func readFD(fd int, name string) ([]byte, unix.Stat_t, error) {
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, st, fmt.Errorf("it is not a regular file")
	}
	if st.Size > maxFile {
		return nil, st, fmt.Errorf("it has %d bytes, more than the %d allowed", st.Size, maxFile)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it has more than the %d bytes allowed", maxFile)
	}
	return data, st, err
}
