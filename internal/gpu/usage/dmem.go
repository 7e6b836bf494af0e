package usage

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/gpu/sysfile"
)

// addPeaks says how much of the GPU's own memory each container had at most, where the
// kernel counts that in the container's control group: of a GPU that is not divided, as a
// region of memory is one of the whole.
func (s *Scanner) addPeaks(rows []Row, l *ledger, d Device, devices []Device) {
	if slices.ContainsFunc(devices, func(o Device) bool { return o != d && o.PCI == d.PCI }) {
		return
	}
	for i, r := range rows {
		if r.Container == "" || r.Container == Other {
			continue
		}
		for _, dir := range l.totals[r.Container].place.dirs {
			if text, err := sysfile.ReadOnce(s.root.Path(path.Join(dir, "dmem.peak"))); err == nil {
				rows[i].Peak = peakOf(string(text), d.PCI)
				break
			}
		}
	}
}

// peakOf reads dmem.peak (Documentation/admin-guide/cgroup-v2.rst, "DMEM"): a line for each
// region of device memory with the most bytes since the control group was made, as
// "drm/0000:03:00.0/vram0 8589934592". Of several regions of a GPU it is the sum, which they
// need not have had at a time. None where the GPU has no line.
func peakOf(text, pci string) (peak []Amount) {
	sum, found := 0.0, false
	for line := range strings.Lines(text) {
		region, bytes, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(bytes, 10, 64)
		if err == nil && strings.HasPrefix(region, "drm/"+pci+"/vram") {
			sum, found = sum+float64(n), true
		}
	}
	if found {
		peak = []Amount{{"vram", sum}}
	}
	return peak
}
