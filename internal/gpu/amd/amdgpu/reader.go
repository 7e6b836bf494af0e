package amdgpu

import (
	"sync"
	"sync/atomic"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/gpu/sysfile"
)

// LookEvery is how long a file system's own word that nothing changed is believed.
const LookEvery = time.Minute

// Reader reads one device, again and again: it keeps its descriptors and what its
// counters were. No GPU ever has two readings at once that could hang, of whoever
// asks. A reading that hangs in the kernel hangs for good: the caller has to mind it,
// and can ask At and Missed meanwhile.
type Reader struct {
	root   host.Root
	device Device
	now    func() time.Time
	limit  *sysfile.Limit
	at     atomic.Pointer[string] // the file being read
	again  atomic.Bool            // open the files anew
	hangs  HangLog

	mu             sync.Mutex   // of a reading, and of all below
	files          *sysfile.Set // read at every reading
	dir, sensorDir directory    // what they were when the files were opened
	looked         time.Time    // by path, last
	opened         bool
	id             Identity
	attrs          *attributes
	sensors        hwmon
	table          tableState
	throttle       throttleState
	fatal          time.Time  // when a fatal error was counted last
	slow           *slowState // nil: not read yet
	replays        rate
	linked         map[int]bool // XGMI links that were up
	answers        answers
	folder         uint64 // the inode of the device's, as it was last
	sensorsWere    string // where its sensors were last

	s State // under construction
}

// NewReader reads the device below root, with descriptors within the limit.
func NewReader(root host.Root, d Device, limit *sysfile.Limit, now func() time.Time) *Reader {
	return &Reader{root: root, device: d, limit: limit, now: now, linked: map[int]bool{}}
}

// Missed notes that a reading did not come back in time, and tells of the GPU's hangs.
func (r *Reader) Missed(now time.Time) Hangs {
	r.hangs.Missed(now)
	return r.hangs.Now(now)
}

// Device is the one that is read.
func (r *Reader) Device() Device { return r.device }

// At is the name of the file that is read now, or was last.
func (r *Reader) At() string {
	if p := r.at.Load(); p != nil {
		return *p
	}
	return ""
}

// Reopen makes the next reading open all files anew, and waits for nothing.
func (r *Reader) Reopen() { r.again.Store(true) }

// Close closes the descriptors once nobody reads.
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

// current reports whether the descriptors are those of the device that is there.
func (r *Reader) current() bool {
	byPath := r.now().Sub(r.looked) >= LookEvery
	if byPath {
		r.looked = r.now()
	}
	return r.opened && r.dir.path != "" && r.dir.same(byPath) && r.sensorDir.same(byPath)
}

// refresh makes sure that the descriptors are those of the device that is there
// now. A device that was removed and found again has other directories; one
// whose driver was bound again has another hwmon.
func (r *Reader) refresh() {
	if r.again.Swap(false) && r.files != nil {
		r.files.Close() // each is opened when it is read
		r.looked = time.Time{}
	}
	if r.current() {
		return
	}
	if r.files != nil {
		r.files.Close()
	}
	r.files = sysfile.NewSet(r.root, r.limit, &r.at)
	r.id = readIdentity(r.root, func(name string) { r.at.Store(&name) }, r.device)
	r.slow, r.throttle, r.table, r.linked = nil, throttleState{}, tableState{unknown: r.table.unknown}, map[int]bool{}
	r.sensorDir.close()
	was := r.folder
	r.dir.open(r.root.Path(r.device.Dir))
	if r.folder = r.dir.was.ino; was != 0 && was != r.folder { // removed and found again
		r.answers.forget()
	}
	r.looked = r.now()
	r.attrs = newAttributes(r.files, r.device)
	r.opened, r.sensors = true, hwmon{}
}

func (r *Reader) fail(file, errno string) {
	r.s.Failures = append(r.s.Failures, Failure{File: file, Errno: errno})
}

// bytes reads an attribute. ok is false where there is no value; failed says
// that this is a fault and not a trait of the hardware, and that it is noted.
func (r *Reader) bytes(f *sysfile.File) (b []byte, ok, failed bool) {
	b, err := f.Read()
	r.answers.note(f.Base(), err)
	if err != nil {
		r.hangs.asked(err)
		if sysfile.Absent(err) {
			return nil, false, false
		}
		r.fail(f.Base(), sysfile.ErrnoName(err))
		return nil, false, true
	}
	b = sysfile.Trim(b)
	return b, len(b) > 0, false
}

// number reads an attribute with one decimal number from min to max. Firmware
// that lacks a sensor may answer all ones, which no plausible range includes.
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
		to.put(float64(n) / per)
	}
	return ok
}
