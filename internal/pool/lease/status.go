package lease

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

// Read returns the state of each GPU, in the order of the unit's GPUs, and the counters. It
// changes nothing, and blocks others only while it reads a file.
func (l Leases) Read() (states []State, c Counters, err error) {
	if err := l.checkNames(); err != nil {
		return nil, c, err
	}
	dir, err := l.openDir()
	if err != nil {
		return nil, c, err
	}
	var s slots
	for i, name := range l.GPUs {
		s = append(s, slot{gpu: i, name: name, fd: -1})
	}
	if dir < 0 { // no GPU was ever leased
		return l.states(s), c, nil
	}
	defer unix.Close(dir)
	boot, err := l.boot()
	if err != nil {
		return nil, c, err
	}
	for i := range s {
		if s[i].raw, err = readShared(dir, s[i].name); err != nil {
			return nil, c, fmt.Errorf("cannot read %s: %w", l.path(s[i].name), err)
		}
	}
	l.judgeAll(s, boot, l.now())
	c, err = l.readCounters(dir)
	return l.states(s), c, err
}

// readShared returns the content of a GPU's file without spaces.
func readShared(dir int, name string) ([]byte, error) {
	fd, err := openFile(dir, name)
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

// count changes the counters under their own lock, which is taken after the locks of GPUs.
// It ignores errors, because a missing number in a metric must not cost a task its GPU.
func (l Leases) count(dir int, change func(*Counters)) {
	l.before("open", countersName)
	fd, err := createFile(dir, countersName)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if flock(fd, unix.LOCK_EX) != nil {
		return
	}
	c, err := readCounters(fd)
	if _, ok := errors.AsType[*rawjson.NewerError](err); ok {
		return
	}
	if err != nil {
		c = Counters{} // they restart, as after a reboot
	}
	change(&c)
	l.before("write", countersName)
	_ = pwrite(fd, pad(c.appendTo(make([]byte, 0, recordSize))))
}

func (l Leases) readCounters(dir int) (Counters, error) {
	fd, err := openFile(dir, countersName)
	if errors.Is(err, unix.ENOENT) {
		return Counters{}, nil
	}
	if err == nil {
		defer unix.Close(fd)
		err = flock(fd, unix.LOCK_SH)
	}
	var c Counters
	if err == nil {
		c, err = readCounters(fd)
	}
	if err != nil {
		return c, fmt.Errorf("cannot read counters %s: %w; remove it, and they begin again", l.path(countersName), err)
	}
	return c, nil
}

func readCounters(fd int) (Counters, error) {
	var room [recordSize]byte
	data, err := pread(fd, room[:])
	if err != nil {
		return Counters{}, err
	}
	return decodeCounters(bytes.Clone(data))
}

// members declares the format of the counters.
func (n *Counters) members(c *rawjson.Codec) {
	c.Version(1)
	c.Number("granted", &n.Granted, 1<<63)
	c.Number("busy", &n.Busy, 1<<63)
	c.Number("impossible", &n.Impossible, 1<<63)
	c.Number("held_ms", &n.HeldMS, 1<<63)
}

func (n *Counters) appendTo(out []byte) []byte { return rawjson.Encode(out, n.members) }

func decodeCounters(data []byte) (n Counters, err error) {
	if data = trim(data); len(data) == 0 {
		return n, nil
	}
	doc, err := rawjson.Parse(data)
	if err != nil {
		return n, err
	}
	if doc.Root().Kind() != rawjson.Object {
		return n, errors.New("it holds no object")
	}
	if err := rawjson.Decode(doc.Root(), n.members); err != nil {
		return Counters{}, err
	}
	return n, nil
}
