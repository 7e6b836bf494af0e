package taskrecord

import (
	"fmt"
	"slices"
	"time"

	"concourse-ci-machine/internal/base/units"
)

// Energy is what the GPUs of a task used while it ran.
type Energy struct {
	Joules float64 `json:"joules"`
	// Estimate is true if a GPU was shared, or readings are missing. Tasks that share a GPU
	// have equal parts of its energy.
	Estimate   bool     `json:"estimate"`
	Unmeasured []string `json:"unmeasured,omitempty"` // GPUs without any reading of power
}

// longestStep is the longest time between two readings whose power is taken as even.
const longestStep = 10 * time.Second

// EnergyOf returns the energy of a task, or nil if nothing was measured. It adds what the
// GPU's own counter grew by. Without a counter, or where it started again, it adds the mean
// power of two readings for the time between them.
func EnergyOf(r *Record) *Energy {
	var e Energy
	measured := map[string]bool{} // cards: each partition reports the power of the whole
	for _, g := range r.Head.GPUs {
		if measured[g.Card()] {
			continue
		}
		joules, estimate, ok := energyOf(r.GPUs[g.Name], r.Head.Started, r.Ended())
		if !ok {
			e.Unmeasured = append(e.Unmeasured, g.Name)
			continue
		}
		measured[g.Card()] = true
		e.Joules += joules
		e.Estimate = e.Estimate || estimate
	}
	e.Unmeasured = slices.DeleteFunc(e.Unmeasured, func(name string) bool { return measured[GPU{Name: name}.Card()] })
	if len(measured) == 0 {
		return nil
	}
	e.Estimate = e.Estimate || len(e.Unmeasured) > 0
	return &e
}

// energyOf returns the joules of one GPU between two times. The time before the first and
// after the last reading has the power of the nearest step.
func energyOf(all []Sample, from, to time.Time) (joules float64, estimate, ok bool) {
	samples := slices.DeleteFunc(slices.Clone(all), func(s Sample) bool {
		_, power := s.Get(Power)
		_, sum := s.Get(EnergySum)
		slept, _ := s.Get(Asleep)
		return !power && !sum && slept != 1
	})
	var before, after float64 // W
	for i := 1; i < len(samples); i++ {
		a, b := samples[i-1], samples[i]
		millis := b.At - a.At
		j, known := stepEnergy(a, b)
		if !known || millis <= 0 {
			estimate = true
			continue
		}
		if tasks, _ := a.Get(Tasks); tasks > 1 {
			j, estimate = j/float64(tasks), true
		}
		joules += j
		if after = j / float64(millis) * 1000; !ok {
			before, ok = after, true
		}
	}
	if !ok {
		return 0, false, false
	}
	for _, edge := range []struct {
		millis int64
		watts  float64
	}{{samples[0].At - from.UnixMilli(), before}, {to.UnixMilli() - samples[len(samples)-1].At, after}} {
		if edge.millis > longestStep.Milliseconds() {
			estimate = true
			continue
		}
		joules += float64(edge.millis) / 1000 * edge.watts
	}
	return joules, estimate, true
}

// stepEnergy returns the joules between two readings of a GPU.
func stepEnergy(a, b Sample) (joules float64, ok bool) {
	if e, ok := a.Get(EnergySum); ok {
		if f, ok := b.Get(EnergySum); ok && f >= e {
			return float64(f-e) / 1000, true
		}
	}
	if slept, _ := a.Get(Asleep); slept == 1 {
		if sleeps, _ := b.Get(Asleep); sleeps == 1 {
			return 0, true
		}
	}
	p, okA := a.Get(Power)
	q, okB := b.Get(Power)
	millis := b.At - a.At
	return float64(p+q) / 2 * float64(millis) / 1e6, okA && okB && millis <= longestStep.Milliseconds()
}

// String returns the energy in units for people.
func (e Energy) String() string {
	text := fmt.Sprintf("%.1f Wh (%.0f kJ)", e.Joules/3600, e.Joules/1000)
	switch {
	case len(e.Unmeasured) > 0:
		text += ", " + units.Count(len(e.Unmeasured), "GPU") + " not measured"
	case e.Estimate:
		text += ", an estimate: a GPU was shared in equal parts, or readings are missing"
	}
	return text
}
