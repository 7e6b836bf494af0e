package lease

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Read returns the state of each GPU, in the order of the unit's, those who
// wait, the first first, and the counters. It changes nothing, and keeps nobody
// waiting for longer than it takes to read a file.
func (l Leases) Read() (states []State, waiters []Waiter, c Counters, err error) {
	if err := l.checkNames(); err != nil {
		return nil, nil, c, err
	}
	dir, err := l.openDir(false)
	if err != nil {
		return nil, nil, c, err
	}
	s := make(slots, len(l.GPUs))
	for i, name := range l.GPUs {
		s[i] = slot{gpu: i, name: name, fd: -1}
	}
	if dir < 0 { // nobody ever leased
		return s.states(), nil, c, nil
	}
	defer unix.Close(dir)
	boot, err := l.boot()
	if err != nil {
		return nil, nil, c, err
	}
	for i := range s {
		if s[i].raw, err = peek(dir, s[i].name); err != nil {
			return nil, nil, c, fmt.Errorf("cannot read %s: %w", l.path(s[i].name), err)
		}
	}
	l.judgeAll(s, boot, l.now())
	if waiters, err = l.waiters(dir); err != nil {
		return nil, nil, c, err
	}
	c, err = l.readCounters(dir)
	return s.states(), waiters, c, err
}

// peek returns what is in a GPU's file, less blanks.
func peek(dir int, name string) ([]byte, error) {
	fd, err := openFile(dir, name, false)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := flock(fd, unix.LOCK_SH); err != nil {
		return nil, err
	}
	var room [recordSize + 1]byte
	data, err := pread(fd, room[:])
	return bytes.Clone(trim(data)), err
}
