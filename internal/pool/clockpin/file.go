package clockpin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fileSize is that of each file: one write within a page, which no kill can tear.
const fileSize = 4096

// How long a file is waited for that another process has. Who has it works for
// milliseconds, or hangs in the driver for good.
const (
	lockPause = 10 * time.Millisecond
	lockTime  = time.Second
)

// file is that of one GPU, open and locked. It stays when the GPU is given back, blank.
type file struct {
	name string
	fd   int
}

func (f *file) close() { unix.Close(f.fd) }

// lock opens a GPU's file and locks it. Without make it is nil where there is none.
func (p Pins) lock(name string, make bool) (*file, error) {
	if !Plain(name) {
		return nil, fmt.Errorf("cannot pin GPU %q: its name is no PCI address", name)
	}
	flags := unix.O_RDWR | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	if make {
		err := os.MkdirAll(filepath.Dir(p.Dir), 0o755)
		if err == nil {
			err = os.MkdirAll(p.Dir, 0o700)
		}
		if err != nil {
			return nil, err
		}
		flags |= unix.O_CREAT
	}
	path := filepath.Join(p.Dir, name)
	fd, err := unix.Open(path, flags, 0o600)
	if errors.Is(err, unix.ENOENT) && !make {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	for waited := time.Duration(0); ; waited += lockPause {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return &file{name, fd}, nil
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

// Plain tells whether a name is that of a whole GPU: its PCI address.
func Plain(name string) bool {
	digits := strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' || 'a' <= r && r <= 'f' {
			return '0'
		}
		return r
	}, name)
	short, ok := strings.CutSuffix(digits, ":00:00.0")
	return ok && len(short) >= 4 && len(short) <= 8 && strings.Trim(short, "0") == ""
}

// read returns what the file tells; nil for a GPU that is not pinned.
func (f *file) read() (*Record, error) {
	var room [fileSize]byte
	n, err := unix.Pread(f.fd, room[:], 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read the pin of GPU %s: %w", f.name, err)
	}
	r, err := decode(room[:n])
	if err != nil {
		return nil, fmt.Errorf("the pin of GPU %s is damaged: %w", f.name, err)
	}
	return r.named(f.name), nil
}

// write makes r what the file tells; nil is nothing.
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
