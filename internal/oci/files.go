package oci

import (
	"cmp"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxFile bounds every file that is read: 16 MiB, where the largest config.json
// that Concourse makes has about 13 KiB.
const maxFile = 16 << 20

// readRegular reads a regular file of at most maxFile bytes. With noFollow the
// last part of the path must not be a symbolic link. It never waits for a pipe.
func (mem *memory) readRegular(path string, noFollow bool) ([]byte, unix.Stat_t, error) {
	flags := unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK
	if noFollow {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := unix.Open(path, flags, 0)
	if err != nil {
		return nil, unix.Stat_t{}, err
	}
	return mem.readFD(fd)
}

// readFD reads an open regular file to its end and closes it. It makes no
// os.File, which would start the poller of Go's runtime.
func (mem *memory) readFD(fd int) ([]byte, unix.Stat_t, error) {
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
	data := mem.take(int(st.Size))
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

// writeParts writes pieces one after the other, without a copy of them all. It
// changes parts.
func writeParts(fd int, parts [][]byte) error {
	var vec [16]unix.Iovec
	for parts = skip(parts, 0); len(parts) > 0; {
		n := min(len(parts), len(vec))
		for i, p := range parts[:n] {
			vec[i].Base = unsafe.SliceData(p)
			vec[i].SetLen(len(p))
		}
		wrote, _, errno := unix.Syscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&vec[0])), uintptr(n))
		if errno != 0 && errno != unix.EINTR {
			return errno
		}
		if errno == 0 {
			parts = skip(parts, int(wrote))
		}
	}
	return nil
}

// skip returns what is left after so many bytes.
func skip(parts [][]byte, bytes int) [][]byte {
	for len(parts) > 0 && bytes >= len(parts[0]) {
		bytes -= len(parts[0])
		parts = parts[1:]
	}
	if len(parts) > 0 {
		parts[0] = parts[0][bytes:]
	}
	return parts
}
