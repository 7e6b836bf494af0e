package exporter

import (
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/exporter/gpumetrics"
	"concourse-ci-machine/internal/exporter/sysfile"
	"concourse-ci-machine/internal/host"
)

// Failure is a file that should have had a value and gave none.
type Failure struct {
	File  string // last part of the name: hwmon numbers change between boots
	Errno string // symbol as in errno(3); or "format", "range", "damaged", "timeout"
}

// card is what is kept of one device between scrapes: its descriptors, the text
// of its series, and what its counters were. Only one goroutine at a time uses
// it; the channel busy sees to that, also against the timer's reading, so that
// no GPU ever has two readers that could hang.
type card struct {
	root   host.Root
	device Device
	driver string
	names  []expo.Family
	dcgm   bool
	now    func() time.Time
	busy   chan struct{}

	at             atomic.Pointer[string] // the file being read
	limit          *sysfile.Limit
	files          *sysfile.Set // read at every scrape
	dir, sensorDir directory    // what they were when the files were opened
	looked         time.Time    // by path, last
	opened         bool
	again          atomic.Bool // open the files anew
	heads          *heads
	id             Identity
	attrs          *attributes
	sensors        hwmon

	table    tableState
	throttle throttleState
	hangs    hangState
	slow     *slowState // nil: not read yet
	replays  rate
	linked   map[*expo.Series]bool // XGMI links that were up since they were first read

	sample *Sample // under construction
	turn   uint64
	slots  map[slotKey]*slot
	plain  [numMetrics]*slot // those without labels of their own
	memo   []memo            // by place in the table
	values []gpumetrics.Value
}

// slot is a series of the card, which has at most one value a scrape: that of
// the first source that has one.
type slot struct {
	series *expo.Series
	turn   uint64
}

type slotKey struct {
	metric metric
	a, b   string // values of the first two labels
	p      uint16 // partition, a third
}

func newCard(c *Collector, d Device, driver string) *card {
	return &card{
		root: c.root, device: d, driver: driver, names: c.families, dcgm: c.options.DCGM, now: func() time.Time { return c.now() },
		busy: make(chan struct{}, 1), limit: c.limit, slots: map[slotKey]*slot{}, linked: map[*expo.Series]bool{},
	}
}

// hold waits for the card; release gives it back.
func (c *card) hold()    { c.busy <- struct{}{} }
func (c *card) release() { <-c.busy }

// retire closes the descriptors once nobody reads.
func (c *card) retire() {
	go func() {
		c.hold()
		defer c.release()
		if c.files != nil {
			c.files.Close()
		}
		c.dir.close()
		c.sensorDir.close()
		c.opened = false
	}()
}

// stamp tells one directory from its successor of the same name.
type stamp struct {
	dev, ino uint64
	changed  unix.Timespec
}

func stampOf(st unix.Stat_t, err error) stamp {
	if err != nil {
		return stamp{}
	}
	return stamp{st.Dev, st.Ino, st.Mtim}
}

// directory is one that is watched: through a descriptor, which is cheap, and
// by its path, which also notices that another one was put in its place.
type directory struct {
	path string // as this process opens it
	fd   int
	was  stamp
}

func (d *directory) open(path string) {
	d.close()
	var st unix.Stat_t
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	d.path, d.fd = path, fd
	err = unix.Fstat(fd, &st)
	d.was = stampOf(st, err)
}

func (d *directory) close() {
	if d.path != "" {
		unix.Close(d.fd)
	}
	*d = directory{}
}

func (d *directory) same(byPath bool) bool {
	if d.path == "" {
		return true
	}
	var st unix.Stat_t
	err := unix.Fstat(d.fd, &st)
	if byPath && err == nil {
		err = unix.Stat(d.path, &st)
	}
	return st.Nlink > 0 && stampOf(st, err) == d.was
}

// current reports whether the descriptors are those of the device that is there.
func (c *card) current() bool {
	byPath := c.now().Sub(c.looked) >= searchEvery
	if byPath {
		c.looked = c.now()
	}
	return c.opened && c.dir.path != "" && c.dir.same(byPath) && c.sensorDir.same(byPath)
}

// refresh makes sure that the descriptors are those of the device that is there
// now. A device that was removed and found again has other directories; one
// whose driver was bound again has another hwmon.
func (c *card) refresh() {
	if c.again.Swap(false) && c.files != nil {
		c.files.Close() // each is opened when it is read
		c.looked = time.Time{}
	}
	if c.current() {
		return
	}
	if c.files != nil {
		c.files.Close()
	}
	c.files = sysfile.NewSet(c.root, c.limit, &c.at)
	c.id = readIdentity(c.root, func(name string) { c.at.Store(&name) }, c.device)
	c.heads = newHeads(c.names, c.device, c.id, c.driver)
	c.slots, c.plain, c.memo, c.slow = map[slotKey]*slot{}, [numMetrics]*slot{}, nil, nil
	c.throttle, c.table.info, c.linked = throttleState{}, nil, map[*expo.Series]bool{}
	c.sensorDir.close()
	c.dir.open(c.root.Path(c.device.Dir))
	c.looked = c.now()
	c.attrs = newAttributes(c.files, c.device)
	c.opened, c.sensors = true, hwmon{}
}

// put adds a value, unless a source before this one had it.
func (c *card) put(m metric, v float64, extra ...expo.Label) {
	if len(extra) > 0 {
		c.set(c.slot(keyOf(m, extra), extra), v)
		return
	}
	if c.plain[m] == nil {
		c.plain[m] = c.slot(slotKey{metric: m}, nil)
	}
	c.set(c.plain[m], v)
}

// putAt is put for what is read at every scrape: it keeps the slot in at.
func (c *card) putAt(at **slot, m metric, v float64, extra []expo.Label) {
	if *at == nil {
		*at = c.slot(keyOf(m, extra), extra)
	}
	c.set(*at, v)
}

func keyOf(m metric, extra []expo.Label) slotKey {
	key := slotKey{metric: m}
	if len(extra) > 0 {
		key.a = extra[0].Value
	}
	if len(extra) > 1 {
		key.b = extra[1].Value
	}
	return key
}

func (c *card) slot(key slotKey, extra []expo.Label) *slot {
	s := c.slots[key]
	if s == nil {
		s = &slot{series: c.heads.labels.series(key.metric, extra...)}
		c.slots[key] = s
	}
	return s
}

func (c *card) set(s *slot, v float64) {
	if s.turn != c.turn {
		s.turn = c.turn
		c.sample.add(s.series, v)
	}
}

// has reports whether the series has a value in this scrape.
func (c *card) has(m metric) bool {
	s := c.plain[m]
	if s == nil {
		s = c.slots[slotKey{metric: m}] // the table has its own way to it
	}
	return s != nil && s.turn == c.turn
}

func (c *card) fail(file, errno string) {
	c.sample.Failures = append(c.sample.Failures, Failure{File: file, Errno: errno})
}

// bytes reads an attribute. ok is false where there is no value; failed says
// that this is a fault and not a trait of the hardware, and that it is noted.
func (c *card) bytes(f *sysfile.File) (b []byte, ok, failed bool) {
	b, err := f.Read()
	if err != nil {
		c.hangs.asked(err)
		if sysfile.Absent(err) {
			return nil, false, false
		}
		c.fail(f.Base(), sysfile.ErrnoName(err))
		return nil, false, true
	}
	b = sysfile.Trim(b)
	return b, len(b) > 0, false
}

// number reads an attribute with one decimal number from min to max. Firmware
// that lacks a sensor may answer all ones, which no plausible range includes.
func (c *card) number(f *sysfile.File, min, max int64) (n int64, ok, failed bool) {
	b, ok, failed := c.bytes(f)
	if !ok {
		return 0, false, failed
	}
	n, err := sysfile.Number(b)
	switch {
	case err != nil:
		c.fail(f.Base(), "format")
		return 0, false, true
	case n < min || n > max:
		c.fail(f.Base(), "range")
		return 0, false, true
	}
	return n, true, false
}

// index is a label for a place in an array.
func index(name string, n int) expo.Label { return expo.Label{Name: name, Value: strconv.Itoa(n)} }
