package taskrecord

import (
	"fmt"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
)

// Energy is what the GPUs of a task used while it ran.
type Energy struct {
	Joules float64 `json:"joules"`
	// Estimate is true if a GPU was shared, or readings are missing. A task that shares a GPU
	// has the part of its energy that it had of the work, or an equal part.
	Estimate   bool     `json:"estimate"`
	Unmeasured []string `json:"unmeasured,omitempty"` // GPUs without any reading of power
}

const (
	// longestStep is the longest time between two readings whose power is taken as even.
	longestStep = 10 * time.Second
	// longestShare is the longest time of one share: scans are 15 s apart.
	longestShare = time.Minute

	million = 1_000_000
)

// EnergyOf returns the energy of a task, or nil if nothing was measured. It adds what the
// GPU's own counter grew by. Without a counter, or if it fell or stood still, it adds the mean
// power of two readings for the time between them.
func EnergyOf(r *Record) *Energy {
	var e Energy
	measured := map[string]bool{} // cards: each partition and die has the power of the whole
	card := map[string]string{}
	for _, g := range r.Head.GPUs {
		card[g.Name] = g.Card()
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
	e.Unmeasured = slices.DeleteFunc(e.Unmeasured, func(name string) bool { return measured[card[name]] })
	if len(measured) == 0 {
		return nil
	}
	e.Estimate = e.Estimate || len(e.Unmeasured) > 0
	return &e
}

// step is the energy of a whole card between two readings.
type step struct {
	end    int64 // milliseconds since 1970
	joules float64
	tasks  int64 // that share the card
	share  int64 // in millionths, that ends a time with this share; otherwise Missing
}

// energyOf returns the joules that one task used of a GPU between two times. The time before
// the first and after the last reading has the power of the nearest step.
func energyOf(all []Sample, from, to time.Time) (joules float64, estimate, ok bool) {
	samples := slices.DeleteFunc(slices.Clone(all), func(s Sample) bool {
		_, power := s.Get(Power)
		_, sum := s.Get(EnergySum)
		slept, _ := s.Get(Asleep)
		return !power && !sum && slept != 1
	})
	dropDoubtful(samples)
	steps := make([]step, 1, len(samples)+2)
	var watts float64
	for i := 1; i < len(samples); i++ {
		a, b := samples[i-1], samples[i]
		millis := b.At - a.At
		next := step{end: b.At, tasks: a.Value(Tasks), share: b.Value(Share)}
		j, known := stepEnergy(a, b)
		if !known || millis <= 0 {
			estimate = true
			steps = append(steps, next)
			continue
		}
		next.joules = j
		steps = append(steps, next)
		watts = j / float64(millis) * 1000
		if !ok {
			ok = true
			steps[0] = step{samples[0].At, edge(samples[0].At-from.UnixMilli(), watts, &estimate), next.tasks, Missing}
		}
	}
	if !ok {
		return 0, false, false
	}
	last := samples[len(samples)-1]
	end := edge(to.UnixMilli()-last.At, watts, &estimate)
	steps = append(steps, step{to.UnixMilli(), end, last.Value(Tasks), Missing})
	joules, shared := ownPart(steps)
	return joules, estimate || shared, true
}

// dropDoubtful removes the counter from samples in which it had stepped back, and from those in
// which it stood still for longestStep or in the whole record. Below half it has begun again.
func dropDoubtful(samples []Sample) {
	for i := 0; i < len(samples); {
		sum, known := samples[i].Get(EnergySum)
		next := i + 1
		for known && next < len(samples) {
			if v, ok := samples[next].Get(EnergySum); ok && (v > sum || v < sum/2) {
				break
			}
			next++
		}
		still := samples[next-1].At-samples[i].At >= longestStep.Milliseconds() || i == 0 && next == len(samples)
		for j := i + 1; j < next; j++ {
			if v, ok := samples[j].Get(EnergySum); ok && (still || v < sum) {
				samples[j].Values = slices.Clone(samples[j].Values)
				samples[j].Values[EnergySum] = Missing
			}
		}
		i = next
	}
}

// edge returns the energy of a time without a reading at one of its ends.
func edge(millis int64, watts float64, estimate *bool) float64 {
	if millis > longestStep.Milliseconds() {
		*estimate = true
		return 0
	}
	return float64(millis) / 1000 * watts
}

// ownPart returns the task's part of the energy of a card. A share of the work is valid for
// the time since the previous share, and the last one to the end. Without shares for a
// while, the tasks have equal parts.
func ownPart(steps []step) (joules float64, shared bool) {
	var whole, equal float64 // since the last share
	last, since := int64(Missing), steps[0].end
	for _, s := range steps {
		whole += s.joules
		equal += s.joules / float64(max(1, s.tasks))
		shared = shared || s.tasks > 1 || s.share != Missing && s.share < million
		switch {
		case s.share != Missing:
			joules += whole * float64(s.share) / million
		case s.end-since > longestShare.Milliseconds():
			joules += equal
		default:
			continue
		}
		whole, equal, last, since = 0, 0, s.share, s.end
	}
	if last != Missing {
		return joules + whole*float64(last)/million, shared
	}
	return joules + equal, shared
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
		text += ", an estimate: a GPU was shared, or readings are missing"
	}
	return text
}
