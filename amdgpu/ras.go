package amdgpu

import (
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// blocks are the parts with error counters of the driver (ras_block_string in
// amdgpu_ras.c).
var blocks = [...]string{"umc", "sdma", "gfx", "mmhub", "athub", "pcie_bif", "hdp", "xgmi_wafl", "df", "smn", "sem",
	"mp0", "mp1", "fuse", "mca", "vcn", "jpeg", "ih", "mpio", "mmsch"}

// severities are the keys of a counter file.
var severities = [...]string{"ue", "ce", "de"}

// errorCounts holds the counts of one file, by severity; -1 is not counted.
type errorCounts [len(severities)]int64

// readRAS reads the error counters since the driver was loaded: the driver sums up the
// hardware's counts, which each reading clears. It skips the file xgmi_error, because
// reading clears it.
func (r *Reader) readRAS(s, before *slowState) {
	dir := path.Join(r.device.Dir, "ras")
	if !r.root.Exists(dir) {
		return
	}
	var sum Errors
	for _, block := range blocks {
		n, ok := r.countsOf(dir, block)
		if !ok {
			continue
		}
		b := BlockErrors{Block: block}
		for i, to := range [...]*Number{&b.Uncorrectable, &b.Correctable, &b.Deferred} {
			if n[i] >= 0 {
				*to = Known(float64(n[i]))
			}
		}
		s.ras.Blocks = append(s.ras.Blocks, b)
		sum.Uncorrectable += uint64(max(0, n[0]))
		sum.Correctable += uint64(max(0, n[1]))
		sum.Deferred += uint64(max(0, n[2]))
	}
	switch {
	case len(s.ras.Blocks) > 0:
		s.ras.Errors = &sum
	case before != nil:
		s.ras.Errors = before.ras.Errors // no answer now: keep the previous counts
	}
	r.readBadPages(s, before, dir)
	r.readFatal(s, before, dir)
}

func (r *Reader) countsOf(dir, block string) (errorCounts, bool) {
	file := block + "_err_count"
	r.at.Store(&file)
	b, err := sysfile.ReadOnce(r.root.Path(path.Join(dir, file)))
	switch {
	case err == unix.EINVAL: // the block has no counters on this GPU
	case err != nil && !sysfile.Absent(err):
		r.fail(file, sysfile.ErrnoName(err))
	case err == nil:
		n, known := parseCounts(sysfile.Clean(b))
		if !known && !strings.HasPrefix(sysfile.Clean(b), "Query currently inaccessible") {
			r.fail(file, "format")
		}
		return n, known
	}
	return errorCounts{}, false
}

// parseCounts reads lines "ue: 0", "ce: 3" and, for the memory controller since Linux 6.12,
// "de: 0" (amdgpu_ras_sysfs_read). ok is false without any count.
func parseCounts(text string) (n errorCounts, ok bool) {
	n = errorCounts{-1, -1, -1}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		v, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		for i, name := range severities {
			if key == name && err == nil && v >= 0 {
				n[i], ok = v, true
			}
		}
	}
	return n, ok
}

// maxPages exceeds the capacity of any board's EEPROM.
const maxPages = 1 << 20

// pagesEvery bounds the time between readings of the bad pages without new errors. Each
// reading of a damaged EEPROM logs a line for each record.
const pagesEvery = time.Hour

// readBadPages counts the lines of a file that is longer than a page. Pages become bad by
// errors that are counted.
func (r *Reader) readBadPages(s, before *slowState, dir string) {
	const file = "gpu_vram_bad_pages"
	if before != nil && before.ras.BadPages != nil && r.now().Sub(before.pagesAt).Abs() < pagesEvery &&
		s.ras.Errors.lasting() == before.ras.Errors.lasting() {
		s.ras.BadPages, s.pagesAt = before.ras.BadPages, before.pagesAt
		return
	}
	name := file
	r.at.Store(&name)
	b, err := sysfile.ReadAll(r.root.Path(path.Join(dir, file)), maxPages)
	if err != nil {
		if !sysfile.Absent(err) && err != unix.EINVAL {
			r.fail(file, sysfile.ErrnoName(err))
		}
		return
	}
	s.ras.BadPages, s.pagesAt = countPages(string(b)), r.now()
}

// lasting returns the number of errors that can make a page bad.
func (e *Errors) lasting() uint64 {
	if e == nil {
		return 0
	}
	return e.Uncorrectable + e.Deferred
}

// countPages counts lines "0x00000001 : 0x00001000 : R" of gpu_vram_bad_pages by their
// last word.
func countPages(text string) *BadPages {
	n := &BadPages{}
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), " : ")
		if len(fields) != 3 {
			continue
		}
		switch strings.TrimSpace(fields[2]) {
		case "R":
			n.Retired++
		case "P":
			n.Pending++
		case "F":
			n.Unreservable++
		}
	}
	return n
}

// readFatal watches the count of fatal errors (Linux 6.12 and later). Errors before the
// exporter's start are not events.
func (r *Reader) readFatal(s, before *slowState, dir string) {
	n, ok := fatalEvents(r.onceQuietly(path.Join(dir, "event_state")))
	if !ok {
		return
	}
	s.fatal = n
	if before != nil && before.fatal >= 0 && n > before.fatal {
		r.fatal = r.now()
	}
}

// onceQuietly reads a file that returns EINVAL if it has no value.
func (r *Reader) onceQuietly(p string) string {
	base := path.Base(p)
	r.at.Store(&base)
	b, err := sysfile.ReadOnce(r.root.Path(p))
	if err != nil {
		return ""
	}
	return sysfile.Clean(b)
}

// fatalEvents reads "Fatal Error: count:2, last_seqno:7" among several such lines.
func fatalEvents(text string) (int64, bool) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "Fatal Error: count:")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		return n, err == nil && n >= 0
	}
	return 0, false
}
