// Package kernellog reads what the kernel's log has on some devices. It knows the form of
// its records, and nothing of what they are about.
package kernellog

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"

	"concourse-ci-machine/internal/plaintext"

	"golang.org/x/sys/unix"
)

const (
	file = "/dev/kmsg"
	// Bounds of what is read, and of what is returned.
	maxRecords = 100_000
	maxRecord  = 8 << 10 // bytes; more than one record can be (CONSOLE_EXT_LOG_MAX)
	maxLines   = 40
	maxLine    = 300 // runes
)

// Lines are the last lines that the kernel itself wrote and that name one of the devices,
// by PCI address, from one time to another, each after its time. Where this machine does
// not let the process read the log, as most containers, that is the error.
func Lines(from, to time.Time, devices []string) ([]string, error) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	defer unix.Close(fd)
	var since unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &since); err != nil {
		return nil, fmt.Errorf("cannot read the clock of %s: %w", file, err)
	}
	boot := time.Now().Add(-time.Duration(since.Nano()))
	return read(reader(fd), boot, from, to, devices)
}

// reader is the file as it is: os.File would wait for records to come.
type reader int

func (r reader) Read(data []byte) (int, error) {
	for {
		n, err := unix.Read(int(r), data)
		switch {
		case errors.Is(err, syscall.EINTR), errors.Is(err, syscall.EPIPE): // with EPIPE records were overwritten: the next is there
			continue
		case errors.Is(err, syscall.EAGAIN), err == nil && n == 0:
			return 0, io.EOF
		case err != nil:
			return 0, err
		}
		return n, nil
	}
}

// read gets one record from each Read.
func read(log io.Reader, boot, from, to time.Time, devices []string) (lines []string, err error) {
	data := make([]byte, maxRecord)
	for range maxRecords {
		n, err := log.Read(data)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", file, err)
		}
		after, text, ok := parse(string(data[:n]))
		at := boot.Add(after)
		if !ok || at.Before(from) || at.After(to) || !names(text, devices) {
			continue
		}
		lines = append(lines, at.UTC().Format("15:04:05.000 ")+plaintext.Line(text, maxLine))
		lines = lines[max(0, len(lines)-maxLines):]
	}
	return lines, nil
}

// parse takes "4,812,93847562,-;text" apart (Documentation/ABI/testing/dev-kmsg): the time
// since the boot in microseconds, and the first line. Records of processes, whose facility
// is not the kernel's 0, are not ok.
func parse(record string) (after time.Duration, text string, ok bool) {
	prefix, text, found := strings.Cut(record, ";")
	fields := strings.SplitN(prefix, ",", 4)
	if !found || len(fields) < 3 || len(fields[0]) != 1 || fields[0] < "0" || fields[0] > "7" {
		return 0, "", false
	}
	us, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || us < 0 || us > 1<<52 {
		return 0, "", false
	}
	text, _, _ = strings.Cut(text, "\n")
	return time.Duration(us) * time.Microsecond, text, true
}

func names(text string, devices []string) bool {
	for _, d := range devices {
		if strings.Contains(text, d) {
			return true
		}
	}
	return false
}
