package clockpin

import (
	"errors"
	"fmt"
	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fileSize is the size of each file: one write within a page, which no kill can tear.
const fileSize = 4096

// Wait for a file that another process has locked. That process works for milliseconds, or
// hangs in the driver for good.
const (
	lockPause = 10 * time.Millisecond
	lockTime  = time.Second
)

// file holds the open and locked file of one GPU. It stays, empty, after the GPU is unpinned.
type file struct {
	name string
	fd   int
	boot string // of the machine, once open has read it
}

func (f *file) close() { unix.Close(f.fd) }

// create opens a GPU's file and locks it. It makes a missing file.
func (p Pins) create(name string) (*file, error) {
	if !IsWholeGPU(name) {
		return nil, notWholeGPU(name)
	}
	if err := os.MkdirAll(filepath.Dir(p.Dir), 0o755); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, err
	}
	return p.lockWith(name, unix.O_CREAT)
}

// lock opens a GPU's file and locks it. It returns nil if the file is missing.
func (p Pins) lock(name string) (*file, error) {
	if !IsWholeGPU(name) {
		return nil, notWholeGPU(name)
	}
	f, err := p.lockWith(name, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	return f, err
}

func notWholeGPU(name string) error {
	return fmt.Errorf("cannot pin GPU %q: its name is no PCI address", name)
}

func (p Pins) lockWith(name string, flags int) (*file, error) {
	path := filepath.Join(p.Dir, name)
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
		p.Sleep(lockPause)
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

// read returns the record in the file, and nil for a GPU that is not pinned.
func (f *file) read() (*Record, error) {
	var room [fileSize]byte
	n, err := unix.Pread(f.fd, room[:], 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read the pin of GPU %s: %w", f.name, err)
	}
	r, err := decode(room[:n])
	if _, ok := errors.AsType[*rawjson.NewerError](err); ok {
		return nil, fmt.Errorf("cannot use the pin of GPU %s: %w", f.name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("the pin of GPU %s is damaged: %w", f.name, err)
	}
	return r.named(f.name), nil
}

// write writes r to the file. nil empties it.
func (f *file) write(p Pins, r *Record) error {
	what, data := "blank ", []byte(nil)
	if r != nil {
		what, data = "write ", r.appendTo(nil)
	}
	if len(data) >= fileSize {
		return fmt.Errorf("cannot pin GPU %s: its record has %d bytes, more than %d", f.name, len(data), fileSize-1)
	}
	data = append(data, strings.Repeat(" ", fileSize-1-len(data))+"\n"...)
	p.before(what + f.name)
	n, err := unix.Pwrite(f.fd, data, 0)
	if err == nil && n != len(data) {
		err = errors.New("it was written in part")
	}
	if err != nil {
		return fmt.Errorf("cannot write the pin of GPU %s: %w", f.name, err)
	}
	return nil
}

func (p Pins) boot() (string, error) {
	path := filepath.Join("/", p.Proc, "sys/kernel/random/boot_id")
	if p.Proc == "" {
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
