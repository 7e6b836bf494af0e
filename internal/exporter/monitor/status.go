package monitor

import (
	"math"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/base/version"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// faultTime limits the age of a past fault that is shown.
const faultTime = 24 * time.Hour

// Report reads all GPUs and adds their histories.
func (m *Monitor) Report() api.Report {
	name, err := m.root.ReadText("/proc/sys/kernel/hostname")
	if err != nil {
		name, _ = m.root.ReadText("/etc/hostname") // the root of no running machine; "" without this file, too
	}
	s := m.Snapshot()
	r := api.Report{Host: name, Version: version.Version(), Time: s.At.UTC(), GPUs: statusOf(s)}
	if s.Users != nil {
		r.UsersTime = new(s.Users.At.UTC())
	}
	for i := range r.GPUs {
		r.GPUs[i].History = m.histories.find(s.GPUs[i].Slot)
	}
	return r
}

// WriteReport reads all GPUs, with their error counters if DefaultRAS has passed since the
// last time, and writes the report. It is for one goroutine.
func (m *Monitor) WriteReport(path string) error {
	if now := m.now(); now.Sub(m.polled).Abs() >= DefaultRAS {
		m.polled = now
		m.Poll()
	}
	return api.File(path).Write(m.root, m.Report())
}

// statusOf returns the GPUs of a snapshot. A partition without sensors, which another
// partition of its GPU shows, has the health of its GPU and only its own readings.
func statusOf(snapshot Snapshot) []api.Status {
	out := make([]api.Status, 0, len(snapshot.GPUs))
	whole, number := map[string]*GPU{}, map[string]int{} // by PCI address
	for i := range snapshot.GPUs {
		g := &snapshot.GPUs[i]
		if number[g.Slot.PCI]++; !g.Shared {
			whole[g.Slot.PCI] = g
		}
	}
	for i := range snapshot.GPUs {
		g := &snapshot.GPUs[i]
		d, s, j := &g.Slot, &g.State, &g.Health
		st := api.Status{
			Index: d.Index, Vendor: string(d.Vendor), Name: clean(d.Model), UUID: clean(s.Identity.UUID), PCI: d.PCI,
			GFX: d.GFX, VBIOS: clean(s.Identity.VBIOS), Driver: clean(g.Driver),
			Up: g.Up, Suspended: s.Suspended(), Power: s.Power.Now.Pointer(), PowerCap: s.Power.Cap.Pointer(),
			MemoryUsed: s.ProgramMemory().Used.Pointer(), MemoryTotal: s.ProgramMemory().Total.Pointer(),
			Integrated: s.APU(), Processes: processesOf(g.Processes),
			Activity: s.Activity.Graphics.Pointer(), MemoryActivity: s.Activity.Memory.Pointer(),
			Health: api.Health{State: j.State, Reason: j.Reason(), Faults: j.Faults, Codes: j.Codes(),
				Hang: j.Signals()},
			Explained:      health.Explain(j.Codes()),
			SocketActivity: g.Socket.Pointer(), Partition: d.Partition, Partitions: number[d.PCI],
			Users: usersOf(g.Users), View: g.View(), PastFaults: pastFaults(&snapshot, g),
		}
		if !g.Shared && !g.Silent {
			st.Hardware = hardwareOf(s)
		}
		if w := whole[d.PCI]; w != nil {
			division := &w.State.Division
			st.ComputePartition, st.MemoryPartition = division.Compute, division.Memory
			st.Partitions = max(st.Partitions, int(division.Partitions.Value))
			if w != g {
				st.SensorsOf = &w.Slot.Index
			}
		}
		if score := math.Round(j.Score*10) / 10; !math.IsNaN(score) {
			st.Health.Score = &score
		}
		if t := g.Temperature(); t.Sensor != "" {
			st.Temperature, st.TemperatureLimit, st.Sensor = t.Now.Pointer(), t.Critical.Pointer(), t.Sensor
		}
		out = append(out, st)
	}
	return out
}

// clean makes a text of a card or a container fit one line of a status or a terminal. All
// that show a GPU rely on it.
func clean(text string) string { return sanitize.Line(text, 300) }

// processesOf returns the processes with clean texts.
func processesOf(all []usage.Process) (out []usage.Process) {
	for _, p := range all {
		p.Name, p.Container = clean(p.Name), clean(p.Container)
		out = append(out, p)
	}
	return out
}

// usersOf returns nil without a scan, or if the driver did not answer.
func usersOf(rows []usage.Row) []api.User {
	if rows == nil {
		return nil
	}
	out := make([]api.User, 0, len(rows))
	for _, r := range rows {
		u := api.User{Container: clean(r.Container), Processes: r.Processes, Memory: byName(r.Memory),
			Engines: byName(r.Engines), Busy: byName(r.Busy)}
		for _, a := range r.Units {
			u.Units = &a.Value
		}
		out = append(out, u)
	}
	return out
}

func byName(amounts []usage.Amount) map[string]float64 {
	out := make(map[string]float64, len(amounts))
	for _, a := range amounts {
		out[a.Name] = math.Round(a.Value*1000) / 1000
	}
	return out
}

func hardwareOf(s *reading.State) (h api.Hardware) {
	h.Clocks, h.Energy = clocksOf(s), s.Power.Energy.Pointer()
	f := api.Fan{RPM: s.Fan.RPM.Pointer(), MaxRPM: s.Fan.MaxRPM.Pointer(), Drive: s.Fan.Drive.Pointer()}
	if f.RPM != nil || f.Drive != nil {
		h.Fan = &f
	}
	p := &s.PCIe
	if p.Speed.Known || p.Lanes.Known {
		h.PCIeLink = &api.PCIeLink{Speed: p.Speed.Pointer(), SpeedMax: p.SpeedMax.Pointer(),
			Lanes: p.Lanes.Pointer(), LanesMax: p.LanesMax.Pointer(), Replays: p.Replays.Pointer()}
	}
	if t := &s.Throttling; len(t.Active) > 0 || t.Limits.Known || t.ThermalShare.Known {
		h.Throttling = &api.Throttling{Reasons: []string{}, Share: t.ThermalShare.Pointer()}
		for _, a := range t.Active {
			if a.Active {
				h.Throttling.Reasons = append(h.Throttling.Reasons, a.Reason)
			}
		}
	}
	if e := s.RAS.Errors; e != nil {
		h.ECC = &api.ECC{Uncorrectable: e.Uncorrectable, Deferred: e.Deferred, Correctable: e.Correctable}
	}
	if b := s.RAS.BadPages; b != nil {
		h.BadPages = new(b.Total())
	}
	return h
}

// clocksOf returns the clock domains in the order of the reading.
func clocksOf(s *reading.State) (out []api.Clock) {
	place := map[string]int{}
	for _, c := range s.Clocks {
		i, known := place[c.Domain]
		if !known {
			place[c.Domain], out = len(out), append(out, api.Clock{Domain: c.Domain, Hertz: c.Hertz})
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
func pastFaults(snapshot *Snapshot, g *GPU) (out []api.PastFault) {
	if g.Service == nil || snapshot.Service == nil {
		return nil
	}
	for _, r := range slices.Backward(snapshot.Service.FaultyRuns) {
		for _, u := range r.GPUs {
			if u.Name != g.Service.Name || len(u.NewFaults) == 0 {
				continue
			}
			at := r.FaultTime(u)
			if snapshot.At.Sub(at) < faultTime {
				out = append(out, api.PastFault{At: at.UTC(), Text: quarantine.DescribeFaults(u.NewFaults),
					Container: r.Container, Cause: r.Verdict})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b api.PastFault) int { return b.At.Compare(a.At) })
	return out
}
