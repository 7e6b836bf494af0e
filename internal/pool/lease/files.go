package lease

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/folder"
)

const countersName = "counters"

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openDir opens the directory of leases. It returns -1 if the directory is missing.
func (l Leases) openDir() (int, error) {
	fd, err := unix.Open(l.Dir, dirFlags, 0)
	if errors.Is(err, unix.ENOENT) {
		return -1, nil
	}
	return l.checkDir(fd, err)
}

// createDir opens the directory of leases, and makes it if it is missing.
func (l Leases) createDir() (int, error) {
	fd, err := unix.Open(l.Dir, dirFlags, 0)
	if errors.Is(err, unix.ENOENT) {
		l.before("mkdir", l.Dir)
		if err = folder.MakeAll(filepath.Dir(l.Dir), 0o755); err == nil {
			err = unix.Mkdir(l.Dir, 0o700)
		}
		if err == nil || errors.Is(err, unix.EEXIST) {
			fd, err = unix.Open(l.Dir, dirFlags, 0)
		}
	}
	return l.checkDir(fd, err)
}

// checkDir checks the result of opening the directory of leases.
func (l Leases) checkDir(fd int, err error) (int, error) {
	if errors.Is(err, unix.EACCES) {
		return -1, fmt.Errorf("cannot open directory of GPU leases %s: %w", l.Dir, err)
	}
	if err != nil {
		return -1, fmt.Errorf("cannot open directory of GPU leases %s: %w; it must be a directory of mode "+
			"0700, no link: remove it, and it is recreated", l.Dir, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("cannot inspect %s: %w", l.Dir, err)
	}
	if st.Mode&0o7777 != 0o700 || st.Uid != l.Euid {
		unix.Close(fd)
		return -1, fmt.Errorf("cannot use %s: it is not a directory of mode 0700 owned by user %d; remove it, "+
			"and it is made again", l.Dir, l.Euid)
	}
	return fd, nil
}

// checkNames refuses names that are not plain file names or not unique.
func (l Leases) checkNames() error {
	for i, name := range l.GPUs {
		if !isPlain(name) || name == countersName || name == keyName {
			return fmt.Errorf("cannot lease GPU %q: its name must be at most 200 letters, digits, _ . : and -", name)
		}
		if slices.Contains(l.GPUs[:i], name) {
			return fmt.Errorf("cannot lease GPU %s: it is listed twice", name)
		}
	}
	return nil
}

func isPlain(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '_' && c != '.' && c != ':' && c != '-' {
			return false
		}
	}
	return name != "" && len(name) <= 200 && name[0] != '.'
}

// openFile opens a file below dir for reading and writing.
func openFile(dir int, name string) (int, error) { return openWith(dir, name, 0) }

// createFile is openFile, and makes a missing file.
func createFile(dir int, name string) (int, error) { return openWith(dir, name, unix.O_CREAT) }

func openWith(dir int, name string, flags int) (int, error) {
	flags |= unix.O_RDWR | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	for {
		fd, err := unix.Openat(dir, name, flags, 0o600)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}

// pread fills room from the start of the file, as far as the file goes.
func pread(fd int, room []byte) ([]byte, error) {
	for {
		n, err := unix.Pread(fd, room, 0)
		if err == unix.EINTR {
			continue
		}
		return room[:max(n, 0)], err
	}
}

func pwrite(fd int, data []byte) error {
	for {
		n, err := unix.Pwrite(fd, data, 0)
		if err == unix.EINTR {
			continue
		}
		if err == nil && n != len(data) {
			err = errors.New("it was written in part")
		}
		return err
	}
}

// readAll reads a small file of the kernel.
func readAll(path string) (string, error) {
	const most = 1 << 20
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var room [1024]byte
	var text strings.Builder
	for {
		n, err := unix.Read(fd, room[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return text.String(), err
		}
		if text.Write(room[:n]); text.Len() > most {
			return "", errors.New("it has more than 1 MiB")
		}
	}
}
