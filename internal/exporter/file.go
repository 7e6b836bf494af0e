package exporter

import (
	"errors"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/host"
)

// maxAttribute is the size of a page, where sysfs attributes end
// (Documentation/filesystems/sysfs.rst).
const maxAttribute = 4096

// Failure is a file that should have had a value and gave none.
type Failure struct {
	File  string // last part of the name: hwmon numbers change between boots
	Errno string // symbol as in errno(3); or "format", "range", "timeout"
}

// files reads the attributes of one device in sysfs and notes what failed.
type files struct {
	root     host.Root
	failures []Failure
	// at is the file being read. It is what another goroutine reports when
	// this one hangs in the kernel.
	at *atomic.Pointer[string]
}

// text reads an attribute. ok is false where there is no value; failed says
// that this is a fault and not a trait of the hardware, and that it is noted.
func (f *files) text(p string) (text string, ok, failed bool) {
	base := path.Base(p)
	f.at.Store(&base)
	b, err := readAttribute(f.root.Path(p))
	if err != nil {
		if !absent(err) {
			f.fail(base, errnoName(err))
			return "", false, true
		}
		return "", false, false
	}
	text = clean(b)
	return text, text != "", false
}

// number reads an attribute with one decimal number from min to max. Firmware
// that lacks a sensor may answer all ones, which no plausible range includes.
func (f *files) number(p string, min, max int64) (n int64, ok, failed bool) {
	text, ok, failed := f.text(p)
	if !ok {
		return 0, false, failed
	}
	n, err := parseNumber(text)
	switch {
	case err != nil:
		f.fail(path.Base(p), "format")
		return 0, false, true
	case n < min || n > max:
		f.fail(path.Base(p), "range")
		return 0, false, true
	}
	return n, true, false
}

func (f *files) fail(file, errno string) {
	f.failures = append(f.failures, Failure{File: file, Errno: errno})
}

// readAttribute makes plain system calls: os.File would register every file
// with the poller, for a few bytes that are read once. One read is all of an
// attribute.
func readAttribute(name string) ([]byte, error) {
	fd, err := retry(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var page [maxAttribute]byte
	n, err := retry(func() (int, error) { return unix.Read(fd, page[:]) })
	if err != nil {
		return nil, err
	}
	return page[:n], nil
}

func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

// absent reports whether the error means that this hardware has no such value:
// the driver hides the file, or keeps it and answers "not supported".
func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) ||
		errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENODATA)
}

func errnoName(err error) string {
	var no syscall.Errno
	if errors.As(err, &no) {
		if name := unix.ErrnoName(no); name != "" {
			return name
		}
		return strconv.Itoa(int(no))
	}
	return "unknown"
}

// clean makes a label or a number of an attribute's bytes. Some captures of
// sysfs are filled up with zero bytes to a page.
func clean(b []byte) string {
	text, _, _ := strings.Cut(string(b), "\x00")
	return strings.TrimSpace(strings.ToValidUTF8(text, ""))
}

// parseNumber reads one decimal number, as the kernel's "%d\n" writes it.
func parseNumber(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }
