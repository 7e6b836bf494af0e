package api

import (
	"slices"
	"time"

	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/gpu/reading"
	"concourse-ci-machine/internal/pool/quarantine"
)

// Hardware holds further readings of a GPU. A value that the GPU does not report is
// missing. Of the partitions of a GPU, only the one with the sensors has these values.
type Hardware struct {
	Clocks     []Clock     `json:"clocks,omitempty"`
	Fan        *Fan        `json:"fan,omitempty"`
	PCIeLink   *PCIeLink   `json:"pcie_link,omitempty"`
	Throttling *Throttling `json:"throttling,omitempty"`
	ECC        *ECC        `json:"ecc_errors,omitempty"`
	BadPages   *int        `json:"bad_pages,omitempty"`
	Energy     *float64    `json:"energy_joules,omitempty"` // since the driver was loaded
}

// Clock describes a clock domain. With several instances it is the highest clock.
type Clock struct {
	Domain string   `json:"clock"` // gfx, mem, ...
	Hertz  float64  `json:"hertz"`
	Max    *float64 `json:"max_hertz,omitempty"`
}

// Fan describes the fan by revolutions per minute, by drive (0 to 1), or by both.
type Fan struct {
	RPM    *float64 `json:"rpm,omitempty"`
	MaxRPM *float64 `json:"max_rpm,omitempty"`
	Drive  *float64 `json:"pwm_ratio,omitempty"`
}

// PCIeLink describes the link to the machine. Speeds are transfers per second of a lane.
type PCIeLink struct {
	Speed    *float64 `json:"transfers_per_second,omitempty"`
	SpeedMax *float64 `json:"max_transfers_per_second,omitempty"`
	Lanes    *float64 `json:"lanes,omitempty"`
	LanesMax *float64 `json:"max_lanes,omitempty"`
	Replays  *float64 `json:"replays,omitempty"` // since the GPU was found
}

// Throttling describes the limits that slow the GPU down.
type Throttling struct {
	Reasons []string `json:"reasons"`                 // active now
	Share   *float64 `json:"thermal_ratio,omitempty"` // of the time under a thermal limit, 0 to 1
}

// ECC counts memory errors since the driver was loaded.
type ECC struct {
	Uncorrectable uint64 `json:"uncorrectable"`
	Deferred      uint64 `json:"deferred"`
	Correctable   uint64 `json:"correctable"`
}

// PastFault describes a fault of the last 24 hours.
type PastFault struct {
	At        time.Time          `json:"at"`
	Text      string             `json:"text"`
	Container string             `json:"container,omitempty"` // that had the GPU
	Cause     quarantine.Verdict `json:"cause,omitempty"`
}

// faultTime is the time that a past fault is shown.
const faultTime = 24 * time.Hour

func hardwareOf(s *reading.State) (h Hardware) {
	h.Clocks, h.Energy = clocksOf(s), s.Power.Energy.Pointer()
	if f := (Fan{s.Fan.RPM.Pointer(), s.Fan.MaxRPM.Pointer(), s.Fan.Drive.Pointer()}); f.RPM != nil || f.Drive != nil {
		h.Fan = &f
	}
	p := &s.PCIe
	if p.Speed.Known || p.Lanes.Known {
		h.PCIeLink = &PCIeLink{p.Speed.Pointer(), p.SpeedMax.Pointer(), p.Lanes.Pointer(), p.LanesMax.Pointer(),
			p.Replays.Pointer()}
	}
	if t := &s.Throttling; len(t.Active) > 0 || t.Limits.Known || t.ThermalShare.Known {
		h.Throttling = &Throttling{Reasons: []string{}, Share: t.ThermalShare.Pointer()}
		for _, a := range t.Active {
			if a.Active {
				h.Throttling.Reasons = append(h.Throttling.Reasons, a.Reason)
			}
		}
	}
	if e := s.RAS.Errors; e != nil {
		h.ECC = &ECC{e.Uncorrectable, e.Deferred, e.Correctable}
	}
	if b := s.RAS.BadPages; b != nil {
		h.BadPages = new(b.Total())
	}
	return h
}

// clocksOf returns the clock domains in the order of the reading.
func clocksOf(s *reading.State) (out []Clock) {
	place := map[string]int{}
	for _, c := range s.Clocks {
		i, known := place[c.Domain]
		if !known {
			place[c.Domain], out = len(out), append(out, Clock{Domain: c.Domain, Hertz: c.Hertz})
			continue
		}
		out[i].Hertz = max(out[i].Hertz, c.Hertz)
	}
	for _, r := range s.ClockRanges {
		if i, known := place[r.Domain]; known {
			out[i].Max = &r.Max
		}
	}
	return out
}

// pastFaults returns the faults of a GPU that tasks had, the newest first.
func pastFaults(snapshot *monitor.Snapshot, g *monitor.GPU) (out []PastFault) {
	if g.Service == nil || snapshot.Service == nil {
		return nil
	}
	for _, r := range slices.Backward(snapshot.Service.FaultyRuns) {
		if snapshot.At.Sub(r.Began) >= faultTime {
			continue
		}
		for _, u := range r.GPUs {
			if u.Name != g.Service.Name || len(u.NewFaults) == 0 {
				continue
			}
			f := PastFault{r.Began.UTC(), quarantine.DescribeFaults(u.NewFaults), r.Container, r.Verdict}
			if r.Ended != nil {
				f.At = r.Ended.UTC()
			}
			out = append(out, f)
		}
	}
	return out
}
