package oci

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/folder"
)

// maxFile bounds every file that is read. It is 16 MiB, and the largest config.json of
// Concourse has about 13 KiB.
const maxFile = 16 << 20

// readRegular reads a regular file of at most maxFile bytes. It never waits for a pipe.
func readRegular(path string) ([]byte, unix.Stat_t, error) { return readWith(path, 0) }

// readNoFollow is readRegular for a path that must not be a symbolic link.
func readNoFollow(path string) ([]byte, unix.Stat_t, error) { return readWith(path, unix.O_NOFOLLOW) }

func readWith(path string, flags int) ([]byte, unix.Stat_t, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, unix.Stat_t{}, err
	}
	return readFD(fd)
}

// readFD reads an open regular file to its end and closes it. It makes no os.File, because
// the caller's errors have the file's name already.
func readFD(fd int) (data []byte, st unix.Stat_t, err error) {
	defer unix.Close(fd)
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, st, errors.New("it is not a regular file")
	}
	if st.Size > maxFile {
		return nil, st, fmt.Errorf("it has %d bytes, more than the %d allowed", st.Size, maxFile)
	}
	// Read as many bytes as it had then. A file that grows now is read as it was.
	data = make([]byte, st.Size)
	for at := 0; at < len(data); {
		n, err := retryEINTR(func() (int, error) { return unix.Read(fd, data[at:]) })
		if err != nil {
			return nil, st, err
		}
		if n == 0 { // it was truncated
			return data[:at], st, nil
		}
		at += n
	}
	return data, st, nil
}

// retryEINTR repeats a system call that a signal interrupts.
func retryEINTR(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != unix.EINTR {
			return n, err
		}
	}
}

// readNames returns the names in an open directory without . and .., in no order.
func readNames(dir int) (names []string, err error) {
	for buf := make([]byte, 2048); ; {
		n, err := retryEINTR(func() (int, error) { return unix.ReadDirent(dir, buf) })
		if err != nil || n == 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// newFile holds the flags for a file that must not exist yet.
const newFile = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC

// writeNew makes a file of mode 0600. It replaces a file that a killed process with the
// same number may have left.
func writeNew(path string, data []byte) error {
	fd, err := unix.Open(path, newFile, 0o600)
	if errors.Is(err, unix.EEXIST) {
		if err = unix.Unlink(path); err == nil {
			fd, err = unix.Open(path, newFile, 0o600)
		}
	}
	if err != nil {
		return err
	}
	err = writeAll(fd, data)
	return cmp.Or(err, unix.Close(fd))
}

// writeAll writes pieces to an open file.
func writeAll(fd int, parts ...[]byte) error {
	for _, p := range parts {
		for len(p) > 0 {
			n, err := retryEINTR(func() (int, error) { return unix.Write(fd, p) })
			if err != nil {
				return err
			}
			p = p[n:]
		}
	}
	return nil
}

// readTrusted reads a file that controls work with root's rights: CDI specs and, at every
// call, the config, because it names the program that this process becomes. Only root and
// this user may be able to write it or to put another file in its place.
func (w *wrapper) readTrusted(path string) ([]byte, error) {
	data, st, err := readRegular(path)
	if err != nil {
		return nil, err
	}
	if err := w.trusted(&st); err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	if err := unix.Stat(dir, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_ISVTX != 0 { // as in /tmp: only root can replace root's files
		st.Mode &^= 0o022
	}
	if err := w.trusted(&st); err != nil {
		return nil, fmt.Errorf("its folder %s: %w", dir, err)
	}
	return data, nil
}

// trusted refuses a file or folder that others than root and this user may have changed.
func (w *wrapper) trusted(st *unix.Stat_t) error {
	// If an engine's user is root, the machine's root has no number.
	unmapped := st.Uid == overflowGID && w.rootless()
	if st.Uid != 0 && st.Uid != w.euid && !unmapped {
		return fmt.Errorf("it belongs to user %d, not to root", st.Uid)
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("its mode %04o lets others than its owner write to it", st.Mode&0o7777)
	}
	return nil
}

// privateDir makes a directory of mode 0700. If it exists, privateDir checks that it has
// this mode and owner and is not a symbolic link.
func privateDir(dir string, euid uint32) error {
	var st unix.Stat_t
	err := unix.Lstat(dir, &st)
	if errors.Is(err, unix.ENOENT) {
		if err := folder.MakeAll(filepath.Dir(dir), 0o755); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		err = unix.Lstat(dir, &st)
	}
	if err != nil {
		return fmt.Errorf("cannot inspect directory %s: %w", dir, err)
	}
	if st.Mode != unix.S_IFDIR|0o700 || st.Uid != euid {
		return fmt.Errorf("cannot use %s: it is not a directory of mode 0700 owned by %d; remove it, and it is "+
			"made again", dir, euid)
	}
	return nil
}
