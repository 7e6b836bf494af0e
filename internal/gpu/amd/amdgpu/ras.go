package amdgpu

import (
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/gpu/sysfile"
)

// blocks are the parts that the driver may count errors of
// (ras_block_string in amdgpu_ras.c).
var blocks = [...]string{"umc", "sdma", "gfx", "mmhub", "athub", "pcie_bif", "hdp", "xgmi_wafl", "df", "smn", "sem",
	"mp0", "mp1", "fuse", "mca", "vcn", "jpeg", "ih", "mpio", "mmsch"}

// severities are the keys of a counter file.
var severities = [...]string{"ue", "ce", "de"}

// errorCounts are the numbers of one file, by severity; -1 is not counted.
type errorCounts [len(severities)]int64

// RAS is the errors that the driver counts, since it was loaded.
type RAS struct {
	Blocks   []BlockErrors // of which the driver told in the last reading
	Errors   *Errors       // of all blocks together; what was counted once stays
	BadPages *BadPages
}

// BlockErrors is what is counted of one part of the GPU.
type BlockErrors struct {
	Block                                string
	Uncorrectable, Correctable, Deferred Number
}

// Errors are counts of all blocks together.
type Errors struct{ Uncorrectable, Deferred, Correctable uint64 }

// BadPages are pages of video memory: retired, to be so at the next reboot, or in use
// by what can't move. Of NVIDIA's GPUs they are rows: Unreservable are those that no spare
// one could stand in for.
type BadPages struct {
	Retired, Pending, Unreservable int
	// Replaced are rows that spare ones stand in for, or retired pages of older GPUs, of
	// NVIDIA's GPUs: that is how they are meant to go on, and no fault.
	Replaced Number
}

// Total is all of them.
func (b *BadPages) Total() int { return b.Retired + b.Pending + b.Unreservable }

// readRAS reads the error counters. They are those since the driver was loaded:
// the driver adds up what the hardware forgets at each reading. The file
// xgmi_error is not among them, for reading it clears it.
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
		s.ras.Errors = before.ras.Errors // the driver does not answer now: what was counted stays
	}
	r.readBadPages(s, dir)
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

// parseCounts reads lines "ue: 0", "ce: 3" and, of the memory controller since
// Linux 6.12, "de: 0" (amdgpu_ras_sysfs_read). ok is false where there is no
// count at all.
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

// maxPages is more than any board keeps in its EEPROM.
const maxPages = 1 << 20

// readBadPages counts the lines of a file that is longer than a page.
func (r *Reader) readBadPages(s *slowState, dir string) {
	const file = "gpu_vram_bad_pages"
	name := file
	r.at.Store(&name)
	b, err := sysfile.ReadAll(r.root.Path(path.Join(dir, file)), maxPages)
	if err != nil {
		if !sysfile.Absent(err) && err != unix.EINVAL {
			r.fail(file, sysfile.ErrnoName(err))
		}
		return
	}
	s.ras.BadPages = countPages(string(b))
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

// readFatal watches the count of fatal errors (Linux 6.12 and later). What was
// counted before the exporter was started is no news.
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

// onceQuietly is for a file that answers EINVAL where it has nothing to tell.
func (r *Reader) onceQuietly(p string) string {
	base := path.Base(p)
	r.at.Store(&base)
	b, err := sysfile.ReadOnce(r.root.Path(p))
	if err != nil {
		return ""
	}
	return sysfile.Clean(b)
}

// fatalEvents reads "Fatal Error: count:2, last_seqno:7" of several such lines.
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
