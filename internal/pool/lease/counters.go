package lease

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/rawjson"
)

// count changes the counters, under a lock of their own that comes after those
// of GPUs. What goes wrong is passed over: a number that is missing in a metric
// must cost nobody his GPU.
func (l Leases) count(dir int, change func(*Counters)) {
	l.before("open", countersName)
	fd, err := openFile(dir, countersName, true)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if flock(fd, unix.LOCK_EX) != nil {
		return
	}
	c, err := readCounters(fd)
	if err != nil {
		c = Counters{} // they begin anew, as after a reboot
	}
	change(&c)
	l.before("write", countersName)
	_ = pwrite(fd, pad(c.appendTo(make([]byte, 0, recordSize))))
}

func (l Leases) readCounters(dir int) (Counters, error) {
	fd, err := openFile(dir, countersName, false)
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
		return c, fmt.Errorf("cannot read counters %s: %w; remove it, and they begin anew", l.path(countersName), err)
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

// each visits the counters by their names.
func (c *Counters) each(visit func(name string, value *uint64)) {
	visit("granted", &c.Granted)
	visit("busy", &c.Busy)
	visit("impossible", &c.Impossible)
	visit("held_ms", &c.HeldMS)
}

func (c *Counters) appendTo(out []byte) []byte {
	before := byte('{')
	c.each(func(name string, value *uint64) {
		out = rawjson.AppendString(append(out, before), name)
		out = strconv.AppendUint(append(out, ':'), *value, 10)
		before = ','
	})
	return append(out, '}')
}

func decodeCounters(data []byte) (c Counters, err error) {
	if data = trim(data); len(data) == 0 {
		return c, nil
	}
	doc, err := rawjson.Parse(data)
	if err != nil {
		return c, err
	}
	if doc.Root().Kind() != rawjson.Object {
		return c, errors.New("it holds no object")
	}
	c.each(func(name string, value *uint64) {
		n, failed := doc.Root().NumberOf(name, 1<<63)
		if *value = n; err == nil {
			err = failed
		}
	})
	if err != nil {
		return Counters{}, err
	}
	return c, nil
}
