package amdgpu

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// ResetReadings failed readings in a row, over at least ResetTime, are more than a chance:
// files are Lost then, and rejected readings mean a reset.
const (
	ResetReadings = 3
	ResetTime     = 5 * time.Second
)

// answers records which essential files answered. A single answer does not prove health,
// because the PCI core and the driver's memory answer for a dead GPU. A single failure does
// not prove a fault, because many cards lack some files. A file that answered before and
// fails now is a sign.
type answers struct {
	before  map[string]bool // answered since the device was opened
	now     map[string]bool // answered in this reading
	skipped map[string]bool // rejected for now, or unsupported in the present mode
	failed  map[string]bool // with an error that no healthy GPU returns

	division string // the modes in which before is valid
	readings int    // readings in a row with lost files
	since    time.Time
}

// essentialFiles lists prefixes of files that every healthy GPU answers. Fans and limits
// are left out, because their answers depend on settings.
var essentialFiles = []string{"gpu_metrics", "gpu_busy_percent", "mem_info_vram_", "temp", "power1_"}

func (a *answers) begin() {
	a.now, a.skipped, a.failed = map[string]bool{}, map[string]bool{}, map[string]bool{}
	if a.before == nil {
		a.before = map[string]bool{}
	}
}

// note records the result of reading a file.
func (a *answers) note(file string, err error) {
	switch {
	case a.now == nil || !slices.ContainsFunc(essentialFiles,
		func(name string) bool { return strings.HasPrefix(file, name) }):
	case err == nil:
		a.now[file] = true
	case sysfile.Vanished(err):
	case sysfile.Refused(err) || sysfile.Absent(err):
		a.skipped[file] = true
	default:
		a.failed[file] = true
	}
}

// reset drops the previous answers, because a driver that is bound again may show other
// files.
func (a *answers) reset() {
	*a = answers{now: a.now, skipped: a.skipped, failed: a.failed, before: map[string]bool{}}
}

// end returns the lost files, sorted, once they were lost in as many readings and for as
// long as a reset requires. modes returns the present partitioning of the GPU.
func (a *answers) end(now time.Time, modes func() string) (lost []string) {
	for file := range a.before {
		if !a.now[file] && !a.skipped[file] {
			lost = append(lost, file)
		}
	}
	if len(a.now) == 0 && len(a.before) == 0 { // no previous answers, and no answer now
		lost = slices.Collect(maps.Keys(a.failed))
	}
	if a.division == "" {
		a.division = modes()
	} else if len(lost) > 0 {
		if division := modes(); division != a.division { // the set of answering files depends on it
			a.reset()
			a.division, lost = division, nil
		}
	}
	maps.Copy(a.before, a.now)
	if len(lost) == 0 {
		a.readings = 0
		return nil
	}
	if a.readings == 0 {
		a.since = now
	}
	if a.readings++; a.readings < ResetReadings || now.Sub(a.since) < ResetTime {
		return nil
	}
	slices.Sort(lost)
	return lost
}
