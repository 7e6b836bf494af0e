package gpu

import (
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/host"
)

// maxFile bounds what is read from any one sysfs or procfs file. sysfs
// attributes end at a page (4 KiB); /proc/devices has a few hundred lines.
const maxFile = 64 << 10

// read returns a small file that does not change while it is there.
func read(r files, p string) (string, error) {
	if r.known == nil || !strings.HasPrefix(p, "/sys/") {
		return readNow(r.Root, p)
	}
	return r.known.read(p)
}

// readNow reads a file as it is. Discovery reads hundreds of files of a few bytes;
// plain system calls spare each of them os.File's poller registration, which sysfs
// files accept.
func readNow(r host.Root, p string) (string, error) {
	full := r.Path(p)
	fd, err := unix.Open(full, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: full, Err: err}
	}
	defer unix.Close(fd)
	var page [4096]byte
	var text []byte
	for len(text) < maxFile {
		n, err := unix.Read(fd, page[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return "", &os.PathError{Op: "read", Path: full, Err: err}
		}
		if n <= 0 {
			break
		}
		text = append(text, page[:n]...)
	}
	return string(text), nil
}

// changing returns what value does, for a file that may change while it exists.
func changing(r files, p string) string {
	if r.known == nil {
		return value(r, p)
	}
	text, err := r.known.readChanging(p)
	if err != nil {
		return ""
	}
	return trim(text)
}

// value reads a one-value file, "" where there is none to be had.
func value(r files, p string) string {
	text, err := read(r, p)
	if err != nil {
		return ""
	}
	return trim(text)
}

// trim cuts off white space and everything from the first zero byte on: some files of sysfs
// are filled up with zero bytes to a page.
func trim(text string) string {
	text, _, _ = strings.Cut(text, "\x00")
	return strings.TrimSpace(strings.ToValidUTF8(text, ""))
}

// hex reads a value as sysfs writes PCI ids: "0x1002", or without the 0x.
func hex(text string, bits int) (uint64, bool) {
	v, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, bits)
	return v, err == nil
}

// target is where the link p points, as a machine path, without following
// further links; "" where p is no link.
func target(r host.Root, p string) string {
	to, err := r.Readlink(p)
	if err != nil || to == "" {
		return ""
	}
	if !path.IsAbs(to) {
		to = path.Join(path.Dir(p), to)
	}
	return path.Clean(to)
}
