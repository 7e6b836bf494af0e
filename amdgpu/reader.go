package amdgpu

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// Options holds the surroundings of a Reader. The zero value reads this machine.
type Options struct {
	Root  string           // folder that replaces "/", for a copy of a machine's files
	Limit *Limit           // of open files, shared with other Readers; nil: an own limit
	Now   func() time.Time // clock of rates and intervals; nil: time.Now
}

// Limit bounds the files that its Readers keep open, all together. Further files are opened
// and closed at each reading.
type Limit struct{ files *sysfile.Limit }

// NewLimit returns a limit that leaves 256 descriptors of the process to other files.
func NewLimit() *Limit { return &Limit{sysfile.NewLimit()} }

// lookEvery is the longest time without checking directories by path.
const lookEvery = time.Minute

// Reader reads one device repeatedly, and keeps its descriptors and counters. Its methods
// may be called by several goroutines; at most one reading of a GPU is outstanding. A
// reading that hangs in the kernel may hang forever: the caller must watch it, and may call
// At and Reopen during it.
type Reader struct {
	root   host.Root
	device Device
	now    func() time.Time
	limit  *sysfile.Limit
	at     atomic.Pointer[string] // the file being read
	reopen atomic.Bool            // open the files again

	mu             sync.Mutex   // of a reading, and of all below
	files          *sysfile.Set // read at every reading
	dir, sensorDir directory    // state when the files were opened
	lastCheck      time.Time    // last check by path
	opened         bool
	id             Identity
	attrs          *attributes
	sensors        hwmon
	table          tableState
	throttle       throttleState
	fatal          time.Time  // time of the last fatal error
	refused        int        // files that the driver rejected in this reading
	answered       bool       // the driver answered in this reading
	slow           *slowState // nil: not read yet
	replays        rate
	energy         float64      // last counter
	linksSeen      map[int]bool // XGMI links that were up
	answers        answers
	lastInode      uint64 // last inode of the device's directory
	lastSensorDir  string // last directory of the sensors

	s State // under construction
}

// NewReader returns a reader of the device. It opens no file before the first reading.
func NewReader(d Device, o Options) *Reader {
	if o.Limit == nil {
		o.Limit = NewLimit()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reader{root: host.Root(o.Root), device: d, limit: o.Limit.files, now: o.Now, linksSeen: map[int]bool{}}
}

// At returns the name of the file that is or was last read.
func (r *Reader) At() string {
	if p := r.at.Load(); p != nil {
		return *p
	}
	return ""
}

// Reopen makes the next reading open all files again. It does not block.
func (r *Reader) Reopen() { r.reopen.Store(true) }

// Close waits for the current reading and closes the descriptors.
func (r *Reader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.files != nil {
		r.files.Close()
	}
	r.dir.close()
	r.sensorDir.close()
	r.opened = false
}

// current reports whether the descriptors belong to the present device.
func (r *Reader) current() bool {
	byPath := r.now().Sub(r.lastCheck) >= lookEvery
	if byPath {
		r.lastCheck = r.now()
	}
	return r.opened && r.dir.path != "" && r.dir.same(byPath) && r.sensorDir.same(byPath)
}

// refresh reopens the files if the descriptors do not belong to the present device. A
// device that was removed and found again has new directories; a driver that was bound
// again has a new hwmon.
func (r *Reader) refresh() {
	if r.reopen.Swap(false) && r.files != nil {
		r.files.Close() // each is opened when it is read
		r.lastCheck = time.Time{}
	}
	if r.current() {
		return
	}
	if r.files != nil {
		r.files.Close()
	}
	r.files = sysfile.NewSet(r.root, r.limit, &r.at)
	r.id = readIdentity(r.root, func(name string) { r.at.Store(&name) }, r.device)
	r.slow, r.throttle, r.table, r.linksSeen = nil, throttleState{}, tableState{unknown: r.table.unknown},
		map[int]bool{}
	r.sensorDir.close()
	was := r.lastInode
	r.dir.open(r.root.Path(r.device.Dir))
	if r.lastInode = r.dir.stamp.ino; was != 0 && was != r.lastInode { // removed and found again
		r.answers.reset()
	}
	r.lastCheck = r.now()
	r.attrs = newAttributes(r.files, r.device, r.slot())
	r.opened, r.sensors = true, hwmon{}
}

func (r *Reader) fail(file, errno string) {
	r.s.Failures = append(r.s.Failures, Failure{File: file, Errno: errno})
}

// noteError records that a file failed.
func (r *Reader) noteError(err error) {
	if sysfile.Refused(err) {
		r.refused++
	}
}

// isRefused reports whether the driver rejected this reading: some files, and no answer.
func (r *Reader) isRefused() bool { return r.refused > 0 && !r.answered }

// bytes reads an attribute. ok is false without a value. failed means that this is a fault,
// which was recorded, and not a trait of the hardware.
func (r *Reader) bytes(f *sysfile.File) (b []byte, ok, failed bool) {
	b, err := f.Read()
	r.answers.note(f.Base(), err)
	if err != nil {
		r.noteError(err)
		if sysfile.Absent(err) {
			return nil, false, false
		}
		r.fail(f.Base(), sysfile.ErrnoName(err))
		return nil, false, true
	}
	b = sysfile.Trim(b)
	return b, len(b) > 0, false
}

// number reads an attribute with one decimal number from min to max. Firmware without a
// sensor may return all ones, which no plausible range includes.
func (r *Reader) number(f *sysfile.File, min, max int64) (n int64, ok, failed bool) {
	b, ok, failed := r.bytes(f)
	if !ok {
		return 0, false, failed
	}
	n, err := sysfile.Number(b)
	switch {
	case err != nil:
		r.fail(f.Base(), "format")
		return 0, false, true
	case n < min || n > max:
		r.fail(f.Base(), "range")
		return 0, false, true
	}
	return n, true, false
}

// into reads an attribute, divided by per, into a number.
func (r *Reader) into(to *Number, f *sysfile.File, max int64, per float64) bool {
	n, ok, _ := r.number(f, 0, max)
	if ok {
		to.setDefault(float64(n) / per)
	}
	return ok
}

// stamp distinguishes a directory from its successor of the same name.
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

// directory watches a directory through a descriptor, which is cheap, and by its path,
// which also detects a replacement.
type directory struct {
	path  string // as opened by this process
	fd    int
	stamp stamp
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
	d.stamp = stampOf(st, err)
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
	return st.Nlink > 0 && stampOf(st, err) == d.stamp
}
