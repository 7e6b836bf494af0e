package fixedclocks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/folder"
	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

// fileSize is the size of each file: one write within a page, which no kill can tear.
const fileSize = 4096

// Wait for a file that another process has locked. That process works for milliseconds, or
// hangs in the driver for good.
const (
	lockPause = 10 * time.Millisecond
	lockTime  = time.Second
)

// file holds the open and locked file of one GPU. It stays, empty, after the clocks are restored.
type file struct {
	name string
	fd   int
	boot string // of the machine, once open has read it
}

func (f *file) close() { unix.Close(f.fd) }

// create opens a GPU's file and locks it. It makes a missing file.
func (s Store) create(name string) (*file, error) {
	if !IsWholeGPU(name) {
		return nil, notWholeGPU(name)
	}
	if err := folder.MakeAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	return s.lockWith(name, unix.O_CREAT)
}

// lock opens a GPU's file and locks it. It returns nil if the file is missing.
func (s Store) lock(name string) (*file, error) {
	if !IsWholeGPU(name) {
		return nil, notWholeGPU(name)
	}
	f, err := s.lockWith(name, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	return f, err
}

func notWholeGPU(name string) error {
	return fmt.Errorf("cannot fix the clocks of GPU %q: its name is not a PCI address", name)
}

func (s Store) lockWith(name string, flags int) (*file, error) {
	path := filepath.Join(s.Dir, name)
	fd, err := unix.Open(path, flags|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	for waited := time.Duration(0); ; waited += lockPause {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return &file{name: name, fd: fd}, nil
		}
		if err == unix.EINTR {
			continue
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || waited >= lockTime {
			unix.Close(fd)
			if errors.Is(err, unix.EWOULDBLOCK) {
				err = errBusy
			}
			return nil, fmt.Errorf("cannot lock %s: %w", path, err)
		}
		s.Sleep(lockPause)
	}
}

// IsWholeGPU reports whether a name is the PCI address of a whole GPU.
func IsWholeGPU(name string) bool {
	digits := strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' || 'a' <= r && r <= 'f' {
			return '0'
		}
		return r
	}, name)
	short, ok := strings.CutSuffix(digits, ":00:00.0")
	return ok && len(short) >= 4 && len(short) <= 8 && strings.Trim(short, "0") == ""
}

// read returns the record in the file, and nil if its clocks are not fixed.
func (f *file) read() (*Measurement, error) {
	var room [fileSize]byte
	n, err := unix.Pread(f.fd, room[:], 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read the fixed clocks of GPU %s: %w", f.name, err)
	}
	r, err := decode(room[:n])
	if _, ok := errors.AsType[*rawjson.NewerError](err); ok {
		return nil, fmt.Errorf("cannot use the fixed clocks of GPU %s: %w", f.name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("the record of the fixed clocks of GPU %s is damaged: %w", f.name, err)
	}
	return r.named(f.name), nil
}

// write writes r to the file. nil empties it.
func (f *file) write(s Store, r *Measurement) error {
	what, data := "blank ", []byte(nil)
	if r != nil {
		what, data = "write ", r.appendTo(nil)
	}
	if len(data) >= fileSize {
		return fmt.Errorf("cannot fix the clocks of GPU %s: its record has %d bytes, more than %d",
			f.name, len(data), fileSize-1)
	}
	data = append(data, strings.Repeat(" ", fileSize-1-len(data))+"\n"...)
	s.before(what + f.name)
	n, err := unix.Pwrite(f.fd, data, 0)
	if err == nil && n != len(data) {
		err = errors.New("it was written in part")
	}
	if err != nil {
		return fmt.Errorf("cannot write the fixed clocks of GPU %s: %w", f.name, err)
	}
	return nil
}

func (s Store) boot() (string, error) {
	path := filepath.Join("/", s.Proc, "sys/kernel/random/boot_id")
	if s.Proc == "" {
		path = "/proc/sys/kernel/random/boot_id"
	}
	data, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(data)) == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", path, err)
	}
	return strings.TrimSpace(string(data)), nil
}
