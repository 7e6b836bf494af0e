package monitor

import (
	"math"
	"sync"
	"time"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

const (
	// recordEvery is the distance of two points of a history. A GPU suspends 5 s after its
	// last use (amdgpu's autosuspend), so recording does not keep it awake.
	recordEvery = 10 * time.Second
	// maxPoints is the number of points of a GPU: 15 minutes.
	maxPoints = 90
)

// point holds one reading of a GPU: temperature, power, memory and activity. An unknown
// value is NaN.
type point [4]float64

func pointOf(g *GPU) (p point) {
	s := &g.State
	for i, n := range [len(p)]amdgpu.Number{g.Temperature().Now, s.Power.Now, s.ProgramMemory().Used,
		s.Activity.Graphics} {
		if p[i] = math.NaN(); n.Known {
			p[i] = n.Value
		}
	}
	return p
}

// ring holds the last points of a GPU.
type ring struct {
	points [maxPoints]point
	next   int // index of the next point
	count  int
	name   string
}

func (r *ring) add(p point) {
	r.points[r.next] = p
	r.next = (r.next + 1) % maxPoints
	r.count = min(r.count+1, maxPoints)
}

// histories holds the points of all present GPUs. The zero value is empty.
type histories struct {
	mu    sync.Mutex
	rings map[string]*ring // by gpu.Slot.Address
	last  time.Time
}

// add appends one reading of all GPUs. Missed readings, for example while the machine
// slept, become a gap. The points of a removed or replaced GPU are dropped.
func (h *histories) add(now time.Time, all []GPU) {
	h.mu.Lock()
	defer h.mu.Unlock()
	missed := 0
	if !h.last.IsZero() {
		missed = int(now.Sub(h.last).Round(recordEvery)/recordEvery) - 1
		missed = max(0, min(missed, maxPoints))
	}
	unknown := pointOf(&GPU{})
	rings := make(map[string]*ring, len(all))
	for i := range all {
		d := all[i].Slot
		k := d.Address()
		r := h.rings[k]
		if r == nil || r.name != d.Model {
			r = &ring{name: d.Model}
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

// find returns the history of a GPU, nil if it has no known values.
func (h *histories) find(d gpu.Slot) *api.History {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rings[d.Address()]
	if r == nil || r.name != d.Model {
		return nil
	}
	out := &api.History{Interval: recordEvery.Seconds(), Last: h.last.UTC().Truncate(time.Second)}
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
	if !any { // for example a partition without sensors
		return nil
	}
	return out
}

// Record adds a reading to the histories of all GPUs.
func (m *Monitor) Record() { m.histories.add(m.now(), m.Snapshot().GPUs) }
