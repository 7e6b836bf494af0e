package usage

import (
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
)

// File declares the report of the last scan.
func File(path string) statefile.File[Result] { return statefile.File[Result]{Path: path, Mode: 0o644} }

// littleWork limits the share of an engine's time that counts as no work: ROCm's processes
// have this much outside of ROCm's own queues.
const littleWork = .01

// Shares returns the part of a card's work that each container did since the previous scan.
// The parts of all its dies and partitions add up to 1. nil means that the work is unknown.
//
// The work is engine time. The kernel counts no engine time for ROCm's own queues
// (amdgpu_ctx.c counts jobs of the DRM scheduler), so the work of ROCm is its busy compute
// units at the scan. The two cannot be compared: the work is unknown if containers do both,
// or if ROCm runs on a GPU that does not report compute units.
func (r *Result) Shares(dies ...string) map[string]float64 {
	engines, units, sums := map[string]float64{}, map[string]float64{}, [2]float64{}
	rocm := false
	for _, d := range r.Devices {
		if !slices.Contains(dies, d.PCI) {
			continue
		}
		for _, row := range d.Rows {
			for _, m := range row.Memory {
				rocm = rocm || m.Name == kinds[kindKFD] && m.Value > 0
			}
			for _, b := range row.Busy {
				if b.Name != sdmaTime {
					engines[row.Container] += b.Value
					sums[0] += b.Value
				}
			}
			for _, n := range row.Units {
				units[row.Container] += n.Value
				sums[1] += n.Value
			}
		}
	}
	work, sum := engines, sums[0]
	switch {
	case rocm && sums[0] > littleWork:
		return nil
	case rocm:
		work, sum = units, sums[1]
	}
	if sum <= 0 { // nothing worked
		return nil
	}
	for name, n := range work {
		work[name] = n / sum
	}
	return work
}

// Workers returns the containers that have a card open, and whether each worked since the
// previous scan. It returns nil if a driver did not answer, or counts no work of a client.
func (r *Result) Workers(dies ...string) (workers map[string]bool) {
	for _, d := range r.Devices {
		if !slices.Contains(dies, d.PCI) {
			continue
		}
		if workers == nil {
			workers = map[string]bool{}
		}
		for _, row := range d.Rows {
			if row.Processes == 0 {
				continue
			}
			works := false
			for _, n := range slices.Concat(row.Busy, row.Units) {
				works = works || n.Value > littleWork
			}
			rocm := slices.ContainsFunc(row.Memory, func(m Amount) bool { return m.Name == kinds[kindKFD] && m.Value > 0 })
			if !works && (len(row.Busy)+len(row.Units) == 0 || rocm && len(row.Units) == 0) {
				return nil
			}
			workers[row.Container] = workers[row.Container] || works
		}
	}
	return workers
}
