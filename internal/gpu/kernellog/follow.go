package kernellog

import (
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
)

// Message is a line that the kernel itself wrote.
type Message struct {
	At     time.Time
	Device string // PCI address, or "": see cutDevice
	Text   string // at most maxLine characters
}

// Log follows the kernel's log from the time when it was opened.
type Log struct {
	records io.Reader
	boot    time.Time
	data    [maxRecord]byte
}

// Open opens the log at its end. It fails in most containers.
func Open() (*Log, error) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	var since unix.Timespec
	if _, err = unix.Seek(fd, 0, io.SeekEnd); err == nil {
		err = unix.ClockGettime(unix.CLOCK_MONOTONIC, &since)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	return Of(reader(fd), time.Now().Add(-time.Duration(since.Nano()))), nil
}

// Of follows another source, which returns a record for each Read. boot is the time 0 of
// its records.
func Of(records io.Reader, boot time.Time) *Log { return &Log{records: records, boot: boot} }

// Next returns the next message of the kernel. ok is false if there is none now.
func (l *Log) Next() (m Message, ok bool) {
	for range maxRecords {
		n, err := l.records.Read(l.data[:])
		if err != nil || n == 0 {
			return m, false
		}
		after, text, valid := parse(string(l.data[:n]))
		if !valid {
			continue
		}
		device, _ := cutDevice(text)
		if !pci.IsFull(device) {
			device = ""
		}
		return Message{l.boot.Add(after).UTC(), device, sanitize.Line(text, maxLine)}, true
	}
	return m, false
}

// Bounded appends a line to a list, and drops the oldest of the most frequent kind of text
// beyond the limit of lines.
func Bounded[T any](lines []T, more T, text func(T) string) (kept []T, dropped bool) {
	lines = append(lines, more)
	if len(lines) <= maxLines {
		return lines, false
	}
	kinds := make([]line, len(lines))
	for i, l := range lines {
		_, about := cutDevice(text(l))
		kinds[i] = line{kindOf(about), ""}
		if about == "" {
			kinds[i].kind = kindOf(text(l))
		}
	}
	at := oldestOfMostFrequent(kinds)
	return append(lines[:at], lines[at+1:]...), true
}
