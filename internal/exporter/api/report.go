// Package api defines the answer of /api/v1/gpus and its texts for people: on the page, in
// dispatch gpu top, in statuses. Clients of the exporter need only this package. It reads
// no GPUs.
package api

import (
	"math"
	"strings"
	"time"

	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/health"
	"concourse-ci-machine/internal/gpu/usage"
	"concourse-ci-machine/internal/pool"
)

// Report is the answer of /api/v1/gpus.
type Report struct {
	Unit    string    `json:"unit,omitempty"` // Juju's name, if the exporter has it
	Host    string    `json:"host"`
	Version string    `json:"version"` // of the exporter
	Time    time.Time `json:"time"`
	// UsersTime is the time of the last scan of the processes for users; null: no scan.
	UsersTime *time.Time `json:"users_time"`
	GPUs      []Status   `json:"gpus"`
}

// Status describes one GPU in /api/v1/gpus. An unknown value is null or missing.
type Status struct {
	Index     int    `json:"index"` // among those of its vendor
	Vendor    string `json:"vendor,omitempty"`
	Name      string `json:"name"`
	UUID      string `json:"uuid"`
	PCI       string `json:"pci_bus_id"`
	GFX       string `json:"gfx,omitempty"`
	VBIOS     string `json:"vbios,omitempty"`
	Driver    string `json:"driver_version,omitempty"`
	Up        bool   `json:"up"`
	Suspended bool   `json:"suspended"`
	Health    Health `json:"health"`

	// Partitions of one GPU share its address and its sensors. SensorsOf is the index of
	// the partition with the readings, unless this partition has them.
	Partition        int    `json:"partition"`  // number of the partition
	Partitions       int    `json:"partitions"` // number of partitions of the GPU, 1 if it is whole
	ComputePartition string `json:"compute_partition,omitempty"`
	MemoryPartition  string `json:"memory_partition,omitempty"`
	SensorsOf        *int   `json:"sensors_of,omitempty"`

	Temperature      *float64 `json:"temperature_celsius"`
	TemperatureLimit *float64 `json:"temperature_limit_celsius"`
	Sensor           string   `json:"temperature_sensor,omitempty"`
	Power            *float64 `json:"power_watts"`
	PowerCap         *float64 `json:"power_cap_watts"`
	MemoryUsed       *float64 `json:"memory_used_bytes"`
	MemoryTotal      *float64 `json:"memory_total_bytes"`
	Activity         *float64 `json:"activity_ratio"`
	MemoryActivity   *float64 `json:"memory_activity_ratio"`
	SocketActivity   *float64 `json:"socket_activity_ratio,omitempty"` // of the whole GPU, if it is divided

	Hardware

	Users []User `json:"users"` // null: unknown
	pool.View
	PastFaults []PastFault `json:"past_faults,omitempty"` // the newest first

	Explained []health.Explanation `json:"explained,omitempty"`
	History   *monitor.History     `json:"history,omitempty"`
}

// Slot returns the GPU that is described.
func (s Status) Slot() gpu.Slot {
	id, _ := strings.CutPrefix(s.UUID, "GPU-")
	if id == s.UUID {
		id = "" // it is a serial number or an address
	}
	return gpu.Slot{Vendor: gpu.Vendor(s.Vendor), Index: s.Index, PCI: s.PCI, Partition: s.Partition, UniqueID: id,
		GFX: s.GFX}
}

// Health holds a GPU's judgement; package health has the formula.
type Health struct {
	State  health.State `json:"state"`
	Score  *float64     `json:"score"`
	Reason string       `json:"reason"`
	// Faults explain the reason in words. Codes are the numbers of the errors for
	// explain-error. Both are empty for a healthy GPU.
	Faults []health.Fault `json:"faults,omitempty"`
	Codes  []int          `json:"codes"`
	Hang   []string       `json:"hang_signals,omitempty"`
}

// User describes one container's use of a GPU.
type User struct {
	Container string             `json:"container"`               // "": no container; usage.Other: beyond the limit
	Processes int                `json:"processes"`               // with the GPU open now
	Memory    map[string]float64 `json:"memory_bytes"`            // by kind; vram includes most of kfd
	Engines   map[string]float64 `json:"engine_seconds"`          // since the container was first seen
	Busy      map[string]float64 `json:"engine_busy_ratio"`       // between the last two scans; empty after one scan
	Units     *float64           `json:"compute_units,omitempty"` // with running work
}

// StatusOf returns the GPUs of a snapshot. A partition whose sensors another partition
// shows has the health of its GPU and only its own readings.
func StatusOf(snapshot monitor.Snapshot) []Status {
	out := make([]Status, 0, len(snapshot.GPUs))
	whole, number := map[string]*monitor.GPU{}, map[string]int{} // by PCI address
	for i := range snapshot.GPUs {
		g := &snapshot.GPUs[i]
		if number[g.Device.PCI]++; !g.Shared {
			whole[g.Device.PCI] = g
		}
	}
	for i := range snapshot.GPUs {
		g := &snapshot.GPUs[i]
		d, s, j := &g.Device, &g.State, &g.Health
		st := Status{
			Index: d.Index, Vendor: string(d.Vendor), Name: d.Name, UUID: s.Identity.UUID, PCI: d.PCI,
			GFX: d.GFX, VBIOS: s.Identity.VBIOS, Driver: g.Driver,
			Up: g.Up, Suspended: s.Suspended(), Power: s.Power.Now.Pointer(), PowerCap: s.Power.Cap.Pointer(),
			MemoryUsed: s.Memory.VRAM.Used.Pointer(), MemoryTotal: s.Memory.VRAM.Total.Pointer(),
			Activity: s.Activity.Graphics.Pointer(), MemoryActivity: s.Activity.Memory.Pointer(),
			Health: Health{State: j.State, Reason: j.Reason(), Faults: j.Faults, Codes: j.Codes(),
				Hang: j.Signals()},
			Explained:      health.Explain(j.Codes()),
			SocketActivity: g.Socket.Pointer(), Partition: d.Partition, Partitions: number[d.PCI],
			Users: usersOf(g.Users), View: g.Record().View(), PastFaults: pastFaults(&snapshot, g),
		}
		if !g.Shared && !g.Silent {
			st.Hardware = hardwareOf(s)
		}
		if w := whole[d.PCI]; w != nil {
			division := &w.State.Division
			st.ComputePartition, st.MemoryPartition = division.Compute, division.Memory
			st.Partitions = max(st.Partitions, int(division.Partitions.Value))
			if w != g {
				st.SensorsOf = &w.Device.Index
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

// usersOf returns nil without a scan, or if the driver did not answer.
func usersOf(rows []usage.Row) []User {
	if rows == nil {
		return nil
	}
	out := make([]User, 0, len(rows))
	for _, r := range rows {
		u := User{r.Container, r.Processes, byName(r.Memory), byName(r.Engines), byName(r.Busy), nil}
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
