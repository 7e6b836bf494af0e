package lease

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Read returns the state of each GPU, in the order of the unit's, and the counters.
// It changes nothing, and keeps nobody waiting for longer than it takes to read a
// file.
func (l Leases) Read() (states []State, c Counters, err error) {
	if err := l.checkNames(); err != nil {
		return nil, c, err
	}
	dir, err := l.openDir(false)
	if err != nil {
		return nil, c, err
	}
	var s slots
	for i, name := range l.GPUs {
		s = append(s, slot{gpu: i, name: name, fd: -1})
	}
	if dir < 0 { // nobody ever leased
		return l.states(s), c, nil
	}
	defer unix.Close(dir)
	boot, err := l.boot()
	if err != nil {
		return nil, c, err
	}
	for i := range s {
		if s[i].raw, err = peek(dir, s[i].name); err != nil {
			return nil, c, fmt.Errorf("cannot read %s: %w", l.path(s[i].name), err)
		}
	}
	l.judgeAll(s, boot, l.now())
	c, err = l.readCounters(dir)
	return l.states(s), c, err
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
