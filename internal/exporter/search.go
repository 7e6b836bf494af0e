package exporter

import "sync/atomic"

// search is what looking for GPUs gave.
type search struct {
	devices []Device
	driver  string
	err     error
}

// search looks for GPUs, under the same rules as reading one: with a deadline
// and only once at a time. Where it fails, the GPUs known before are reported
// on, for their own files tell how each of them is.
func (c *Collector) search() search {
	f := c.searches.start("", func(*atomic.Pointer[string]) search {
		devices, err := c.source()
		return search{devices: devices, driver: driverVersion(c.root), err: err}
	})
	s, ok := f.wait(c.deadline(""))
	switch {
	case !ok:
		c.count("", Failure{File: "search", Errno: "timeout"})
	case s.err != nil:
		c.count("", Failure{File: "search", Errno: errnoName(s.err)})
	default:
		c.known.Store(&s)
		return s
	}
	if last := c.known.Load(); last != nil {
		return *last
	}
	return search{}
}
