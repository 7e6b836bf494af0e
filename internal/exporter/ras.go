package exporter

import (
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/exporter/health"
	"concourse-ci-machine/internal/exporter/sysfile"
)

// blocks are the parts that the driver may count errors of
// (ras_block_string in amdgpu_ras.c).
var blocks = [...]string{"umc", "sdma", "gfx", "mmhub", "athub", "pcie_bif", "hdp", "xgmi_wafl", "df", "smn", "sem",
	"mp0", "mp1", "fuse", "mca", "vcn", "jpeg", "ih", "mpio", "mmsch"}

// severities are the keys of a counter file.
var severities = [...]string{"ue", "ce", "de"}

// errorCounts are the numbers of one file, by severity; -1 is not counted.
type errorCounts [len(severities)]int64

// readRAS reads the error counters. They are those since the driver was loaded:
// the driver adds up what the hardware forgets at each reading. The file
// xgmi_error is not among them, for reading it clears it.
func (c *card) readRAS(s, before *slowState) {
	dir := path.Join(c.device.Dir, "ras")
	if !c.root.Exists(dir) {
		return
	}
	var sum health.Errors
	counted := false
	for _, block := range blocks {
		n, ok := c.countsOf(dir, block)
		if !ok {
			continue
		}
		for i, v := range n {
			if v >= 0 {
				c.put(rasErrors, float64(v), label("block", block), label("severity", severities[i]))
			}
		}
		counted = true
		sum.Uncorrectable += uint64(max(0, n[0]))
		sum.Correctable += uint64(max(0, n[1]))
		sum.Deferred += uint64(max(0, n[2]))
	}
	switch {
	case counted:
		s.errors = &sum
		c.put(eccUncorrectable, float64(sum.Uncorrectable))
	case before != nil:
		s.errors = before.errors // the driver does not answer now: what was counted stays
	}
	c.readBadPages(s, dir)
	c.readFatal(s, before, dir)
}

func (c *card) countsOf(dir, block string) (errorCounts, bool) {
	file := block + "_err_count"
	c.at.Store(&file)
	b, err := sysfile.ReadOnce(c.root.Path(path.Join(dir, file)))
	switch {
	case err == unix.EINVAL: // the block has no counters on this GPU
	case err != nil && !sysfile.Absent(err):
		c.fail(file, sysfile.ErrnoName(err))
	case err == nil:
		n, known := parseCounts(sysfile.Clean(b))
		if !known && !strings.HasPrefix(sysfile.Clean(b), "Query currently inaccessible") {
			c.fail(file, "format")
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

// pageStates are the codes at the end of a line of gpu_vram_bad_pages.
var pageStates = [...][2]string{{"R", "retired"}, {"P", "pending"}, {"F", "unreservable"}}

// maxPages is more than any board keeps in its EEPROM.
const maxPages = 1 << 20

// readBadPages counts the lines of a file that is longer than a page.
func (c *card) readBadPages(s *slowState, dir string) {
	const file = "gpu_vram_bad_pages"
	name := file
	c.at.Store(&name)
	b, err := sysfile.ReadAll(c.root.Path(path.Join(dir, file)), maxPages)
	if err != nil {
		if !sysfile.Absent(err) && err != unix.EINVAL {
			c.fail(file, sysfile.ErrnoName(err))
		}
		return
	}
	counts, total := countPages(string(b))
	s.bad = &total
	for _, state := range pageStates {
		c.put(badPages, float64(counts[state[0]]), label("state", state[1]))
	}
}

// countPages counts lines "0x00000001 : 0x00001000 : R" by their last word.
func countPages(text string) (counts map[string]int, total int) {
	counts = map[string]int{}
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), " : ")
		if len(fields) != 3 {
			continue
		}
		for _, state := range pageStates {
			if strings.TrimSpace(fields[2]) == state[0] {
				counts[state[0]]++
				total++
			}
		}
	}
	return counts, total
}

// readFatal watches the count of fatal errors (Linux 6.12 and later). What was
// counted before the exporter was started is no news.
func (c *card) readFatal(s, before *slowState, dir string) {
	n, ok := fatalEvents(c.onceQuietly(path.Join(dir, "event_state")))
	if !ok {
		return
	}
	s.fatal = n
	if before != nil && before.fatal >= 0 && n > before.fatal {
		c.hangs.fatal = c.now()
	}
}

// onceQuietly is for a file that answers EINVAL where it has nothing to tell.
func (c *card) onceQuietly(p string) string {
	base := path.Base(p)
	c.at.Store(&base)
	b, err := sysfile.ReadOnce(c.root.Path(p))
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
