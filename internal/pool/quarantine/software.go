package quarantine

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// This file warns about a kernel, driver or firmware with which GPUs hang more often.

// SoftwareOf returns the versions that a GPU runs with: of the kernel, of AMD's driver
// package, and of the firmware that schedules and powers the GPU.
func SoftwareOf(r host.Root, pci string) map[string]string {
	versions := map[string]string{}
	add := func(name, file string) {
		text, err := r.ReadText(file)
		if text = strings.TrimSpace(text); err == nil && text != "" && strings.Trim(text, "0x") != "" {
			versions[name] = text
		}
	}
	add("kernel", "/proc/sys/kernel/osrelease")
	add("driver", "/sys/module/amdgpu/version")
	for _, part := range []string{"mec", "mes", "sdma", "smc"} {
		add("firmware "+part, path.Join("/sys/bus/pci/devices", pci, "fw_version", part+"_fw_version"))
	}
	return versions
}

// Resets counts the hangs and resets of a GPU, also of single rings, with one software.
type Resets struct {
	Software map[string]string `json:"software"`
	Since    time.Time         `json:"since"`
	Count    float64           `json:"count"`
	InDay    float64           `json:"in_day"` // at the last look
	Before   *Resets           `json:"before,omitempty"`
}

const (
	// leastResets and riseFactor are a number and a growth that chance hardly makes.
	leastResets = 3
	riseFactor  = 5
	// riseTime is how long after a change of the software it is named.
	riseTime = 14 * 24 * time.Hour
)

func (r *Resets) days(to time.Time) float64 { return to.Sub(r.Since).Hours() / 24 }

// countResets counts the resets of a look. A change of the software begins another count.
func (g *GPU) countResets(s Reading, at time.Time) {
	inDay := 0.
	for _, f := range s.Faults {
		if f.Kind == health.Reset || f.Kind == health.RingResets {
			inDay += f.Value
		}
	}
	var now Resets
	if g.Resets != nil {
		now = *g.Resets
	}
	if len(s.Software) > 0 && !maps.Equal(s.Software, now.Software) {
		before := now
		before.Before = nil
		now = Resets{Software: s.Software, Since: at, InDay: inDay, Before: &before}
		if before.Software == nil {
			now.Before = nil
		}
	}
	if now.Software == nil {
		return
	}
	now.Count += max(0, inDay-now.InDay)
	now.InDay = inDay
	g.Resets, g.Rise = &now, now.rise(at)
}

// rise describes a change of the software after which resets are more frequent, "" for none.
func (r *Resets) rise(at time.Time) string {
	b := r.Before
	if b == nil || r.Count < leastResets || at.Sub(r.Since).Abs() > riseTime {
		return ""
	}
	days, daysBefore := max(1, r.days(at)), b.days(r.Since)
	if daysBefore < 1 || r.Count/days < riseFactor*b.Count/daysBefore {
		return ""
	}
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(r.Software)) {
		if was := b.Software[name]; was != "" && was != r.Software[name] {
			changes = append(changes, fmt.Sprintf("%s %s became %s", name, was, r.Software[name]))
		}
	}
	if len(changes) == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f hangs and resets since %s, %.0f in the %.0f days before", r.Count,
		strings.Join(changes, " and "), b.Count, daysBefore)
}
