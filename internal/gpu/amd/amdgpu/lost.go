package amdgpu

import (
	"maps"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/gpu/sysfile"
)

// answers notes which files answered of those that a healthy GPU always answers. A single
// answer proves no health: the PCI core and the driver's memory answer for a dead GPU. A
// single failure proves no fault, because many cards lack some files. A file that answered
// before and fails now is a sign.
type answers struct {
	before map[string]bool // answered since the files are the device's
	now    map[string]bool // answered in this reading
	spared map[string]bool // turned away for now, or not supported in the present mode
	failed map[string]bool // with an error that no healthy GPU gives

	division string // the modes in which before is right
	readings int    // in a row in which some were lost
	since    time.Time
}

// always lists the beginnings of the names of these files. Fans and limits are left out:
// their answers depend on settings.
var always = []string{"gpu_metrics", "gpu_busy_percent", "mem_info_vram_", "temp", "power1_"}

func (a *answers) begin() {
	a.now, a.spared, a.failed = map[string]bool{}, map[string]bool{}, map[string]bool{}
	if a.before == nil {
		a.before = map[string]bool{}
	}
}

// note takes the outcome of reading a file.
func (a *answers) note(file string, err error) {
	switch {
	case a.now == nil || !slices.ContainsFunc(always, func(name string) bool { return strings.HasPrefix(file, name) }):
	case err == nil:
		a.now[file] = true
	case sysfile.Vanished(err):
	case sysfile.Refused(err) || sysfile.Absent(err):
		a.spared[file] = true
	default:
		a.failed[file] = true
	}
}

// forget drops what answered before: a driver that is bound again may show other files.
func (a *answers) forget() {
	*a = answers{now: a.now, spared: a.spared, failed: a.failed, before: map[string]bool{}}
}

// end returns the lost files, sorted, once they are lost in as many readings and for as long
// as a reset needs to count. modes returns how the GPU is partitioned now.
func (a *answers) end(now time.Time, modes func() string) (lost []string) {
	for file := range a.before {
		if !a.now[file] && !a.spared[file] {
			lost = append(lost, file)
		}
	}
	if len(a.now) == 0 && len(a.before) == 0 { // nothing is known of before, and nothing answers
		lost = slices.Collect(maps.Keys(a.failed))
	}
	if a.division == "" {
		a.division = modes()
	} else if len(lost) > 0 {
		if division := modes(); division != a.division { // which files answer depends on it
			a.forget()
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
	if a.readings++; a.readings < ResetReadings || now.Sub(a.since) < resetTime {
		return nil
	}
	slices.Sort(lost)
	return lost
}
