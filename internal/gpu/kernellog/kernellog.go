// Package kernellog reads the kernel's log about some devices. It parses the records, and
// never interprets their meaning.
package kernellog

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"

	"golang.org/x/sys/unix"
)

const (
	file = "/dev/kmsg"
	// Bounds of the input and of the result.
	maxRecords = 100_000
	maxRecord  = 8 << 10 // bytes; more than the longest record (CONSOLE_EXT_LOG_MAX)
	maxLines   = 40
	maxLine    = 300 // runes
)

// Lines returns the last lines of the kernel about the devices, each with its time. The
// devices are PCI addresses. A frequent kind of line does not displace the other kinds, see
// kindOf. It fails if the log cannot be read, as in most containers.
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

// reader reads without waiting: os.File would block until a record is written.
type reader int

func (r reader) Read(data []byte) (int, error) {
	for {
		n, err := unix.Read(int(r), data)
		switch {
		case errors.Is(err, syscall.EINTR),
			errors.Is(err, syscall.EPIPE): // with EPIPE records were overwritten, the next can be read
			continue
		case errors.Is(err, syscall.EAGAIN), err == nil && n == 0:
			return 0, io.EOF
		case err != nil:
			return 0, err
		}
		return n, nil
	}
}

// read returns one record for each Read.
func read(log io.Reader, boot, from, to time.Time, devices []string) (lines []string, err error) {
	var kept []line
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
		of, about := cutDevice(text)
		if !ok || at.Before(from) || at.After(to) || !slices.Contains(devices, of) {
			continue
		}
		kept = append(kept, line{kindOf(about), at.UTC().Format("15:04:05.000 ") + sanitize.Line(text, maxLine)})
		if len(kept) > maxLines {
			kept = dropFromMostFrequent(kept)
		}
	}
	for _, l := range kept {
		lines = append(lines, l.text)
	}
	return lines, nil
}

type line struct{ kind, text string }

// dropFromMostFrequent removes the oldest line of the kind that has the most lines.
func dropFromMostFrequent(lines []line) []line {
	oldest := oldestOfMostFrequent(lines)
	return slices.Delete(lines, oldest, oldest+1)
}

func oldestOfMostFrequent(lines []line) (oldest int) {
	count := map[string]int{}
	for _, l := range lines {
		count[l.kind]++
	}
	for i, l := range lines {
		if count[l.kind] > count[lines[oldest].kind] {
			oldest = i
		}
	}
	return oldest
}

// parse splits "4,812,93847562,-;text" (Documentation/ABI/testing/dev-kmsg) into the time
// since the boot in microseconds, and the first line. ok is false for records of processes,
// which have a facility other than the kernel's 0.
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

// Text returns the first line of a record. ok is false for records of processes.
func Text(record string) (text string, ok bool) {
	_, text, ok = parse(record)
	return text, ok
}

// cutDevice splits "amdgpu 0000:03:00.0: text", the form of drivers' messages about a
// device, into its address and the text (linux/dev_printk.h). An address elsewhere in a
// line can be a process's name, which a task chooses. The kernel cuts such a name to 15
// bytes (TASK_COMM_LEN). So a line cannot begin with a fake one, which requires a driver's
// name of three letters before the address. A prefix with a colon, such as "traps:", is not
// a driver: a process's name follows it.
func cutDevice(line string) (device, text string) {
	driver, rest, _ := strings.Cut(line, " ")
	device, text, found := strings.Cut(rest, ": ")
	if !found || len(driver) < 3 || strings.HasSuffix(driver, ":") {
		return "", ""
	}
	return device, text
}

// kindOf returns the first two words of a text without digits. Further words may be chosen
// by a task, such as its process's name, and would make each line a separate kind.
func kindOf(text string) string {
	words := strings.Fields(text)
	kind := strings.Join(words[:min(len(words), 2)], " ")
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, kind)
}
