package monitor

import (
	"math"
	"sync"
	"time"

	"concourse-ci-machine/internal/gpu/amd/amdgpu"
)

const (
	// recordEvery is the distance of two points of a history. A GPU falls asleep
	// 5 s after it was last used (amdgpu's autosuspend), so this is no reason for
	// it to stay awake.
	recordEvery = 10 * time.Second
	// maxPoints is what is kept of a GPU: 15 minutes.
	maxPoints = 90
)

// History is a GPU's recent past, oldest point first, at most 15 minutes of it.
// All series are of the same length and end at Last; null is what was not known.
type History struct {
	Interval    float64    `json:"interval_seconds"`
	Last        time.Time  `json:"last"`
	Temperature []*float64 `json:"temperature_celsius"`
	Power       []*float64 `json:"power_watts"`
	Memory      []*float64 `json:"memory_used_bytes"`
	Activity    []*float64 `json:"activity_ratio"`
}

// point is one reading of a GPU: temperature, power, memory and activity, NaN
// where it is not known.
type point [4]float64

func pointOf(g *GPU) (p point) {
	s := &g.State
	for i, n := range [len(p)]amdgpu.Number{g.Temperature().Now, s.Power.Now, s.Memory.VRAM.Used, s.Activity.Graphics} {
		if p[i] = math.NaN(); n.Known {
			p[i] = n.Value
		}
	}
	return p
}

// recordKey tells GPUs apart, whether they answer or not.
type recordKey struct {
	pci       string
	partition int
}

// ring has the last points of a GPU.
type ring struct {
	points [maxPoints]point
	next   int // where the next goes
	count  int
	name   string
}

func (r *ring) add(p point) {
	r.points[r.next] = p
	r.next = (r.next + 1) % maxPoints
	r.count = min(r.count+1, maxPoints)
}

// record is the past of all GPUs that are there. The zero value is empty.
type record struct {
	mu    sync.Mutex
	rings map[recordKey]*ring
	last  time.Time
}

// add takes one reading. Where readings were missed, as while the machine slept,
// there is a gap. A GPU that is gone, or another in its place, loses its past.
func (h *record) add(now time.Time, all []GPU) {
	h.mu.Lock()
	defer h.mu.Unlock()
	missed := 0
	if !h.last.IsZero() {
		missed = int(now.Sub(h.last).Round(recordEvery)/recordEvery) - 1
		missed = max(0, min(missed, maxPoints))
	}
	unknown := pointOf(&GPU{})
	rings := make(map[recordKey]*ring, len(all))
	for i := range all {
		d := all[i].Device
		k := recordKey{d.PCI, d.Partition}
		r := h.rings[k]
		if r == nil || r.name != d.Name {
			r = &ring{name: d.Name}
		} else {
			for range missed {
				r.add(unknown)
			}
		}
		r.add(pointOf(&all[i]))
		rings[k] = r
	}
	h.rings, h.last = rings, now
}

// of is a GPU's past, nil where there is none.
func (h *record) of(d amdgpu.Device) *History {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rings[recordKey{d.PCI, d.Partition}]
	if r == nil || r.name != d.Name {
		return nil
	}
	out := &History{Interval: recordEvery.Seconds(), Last: h.last.UTC().Truncate(time.Second)}
	any := false
	for i, series := range [...]*[]*float64{&out.Temperature, &out.Power, &out.Memory, &out.Activity} {
		*series = make([]*float64, r.count)
		for j := range *series {
			v := r.points[(r.next-r.count+j+maxPoints)%maxPoints][i]
			if !math.IsNaN(v) {
				(*series)[j], any = &v, true
			}
		}
	}
	if !any { // a partition that shows no readings
		return nil
	}
	return out
}

// Record adds a reading to the GPUs' histories.
func (m *Monitor) Record() { m.past.add(m.now(), m.Snapshot().GPUs) }

// History is a GPU's recent past, nil where there is none.
func (m *Monitor) History(d amdgpu.Device) *History { return m.past.of(d) }
