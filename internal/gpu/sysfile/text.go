package sysfile

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Absent reports whether the error means that this hardware lacks the value: the driver
// hides the file, or answers "not supported".
func Absent(err error) bool {
	return Vanished(err) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENODATA)
}

// Vanished reports whether the file does not exist, for example because a driver hides it.
func Vanished(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) }

// Refused reports whether the driver rejected the reading for now: it is in a reset, or
// asleep (amdgpu_pm_dev_state_check; EPERM before Linux 6.15).
func Refused(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EBUSY) }

// ErrnoName returns the symbol of an error as in errno(3).
func ErrnoName(err error) string {
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		if name := unix.ErrnoName(no); name != "" {
			return name
		}
		return strconv.Itoa(int(no))
	}
	return "unknown"
}

// Clean converts an attribute to a label. Some captures of sysfs are padded with zero bytes
// to a page.
func Clean(b []byte) string { return strings.TrimSpace(strings.ToValidUTF8(string(Trim(b)), "")) }

// Trim removes white space and everything after the first zero byte.
func Trim(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return bytes.TrimSpace(b)
}

// Number reads one decimal number, as the kernel's "%d\n" writes it. b is trimmed.
func Number(b []byte) (int64, error) { return strconv.ParseInt(string(b), 10, 64) }

// Leading reads the number at the start of the text, as in "16.0 GT/s PCIe".
func Leading(b []byte) (float64, bool) {
	word, _, _ := bytes.Cut(b, []byte(" "))
	v, err := strconv.ParseFloat(string(word), 64)
	return v, err == nil && v >= 0 && v < 1e15
}
