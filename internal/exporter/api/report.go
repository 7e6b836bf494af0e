// Package api is what /api/v1/gpus answers, and the words in which people are told of it:
// on the page, in dispatch gpu top, in statuses. Who asks the exporter needs no more of it.
package api

import (
	"math"
	"time"

	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/gpu/health"
	"concourse-ci-machine/internal/gpu/usage"
	"concourse-ci-machine/internal/pool/clockpin"
	"concourse-ci-machine/internal/pool/lease"
)

// Report is /api/v1/gpus.
type Report struct {
	Unit    string    `json:"unit,omitempty"` // Juju's name, where the exporter was given it
	Host    string    `json:"host"`
	Version string    `json:"version"` // of the exporter
	Time    time.Time `json:"time"`
	// Looked is when the processes were last looked at for users; null: not at all.
	Looked *time.Time `json:"users_time"`
	GPUs   []Status   `json:"gpus"`
}

// Status is one GPU in /api/v1/gpus. What is not known is null, or missing.
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

	// Partitions of one GPU have its address, and its sensors: the one of them with the
	// index SensorsOf, where that is not this one, has their readings.
	Partition        int    `json:"partition"`  // its number
	Partitions       int    `json:"partitions"` // that the GPU is divided into, 1 where it is whole
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
	SocketActivity   *float64 `json:"socket_activity_ratio,omitempty"` // of the whole GPU, where it is divided

	Users []User `json:"users"` // null: not known
	Lease *Lease `json:"lease"` // null: not leased, or not known
	// Service is whether tasks get it; null: nothing was decided, or that is not known.
	Service *Service `json:"service"`

	Explained []health.Explanation `json:"explained,omitempty"`
	History   *monitor.History     `json:"history,omitempty"`
}

// Health is a GPU's judgement; package health has the formula.
type Health struct {
	State  health.State `json:"state"`
	Score  *float64     `json:"score"`
	Reason string       `json:"reason"`
	// Faults are what the reason says in words, and Codes the numbers of the errors that
	// explain-error tells of; none where the GPU is well.
	Faults []health.Fault `json:"faults,omitempty"`
	Codes  []int          `json:"codes"`
	Hang   []string       `json:"hang_signals,omitempty"`
}

// User is one container's use of a GPU.
type User struct {
	Container string             `json:"container"`               // "" is no container, usage.Other those beyond the limit
	Processes int                `json:"processes"`               // that hold the GPU open now
	Memory    map[string]float64 `json:"memory_bytes"`            // by kind; most of kfd is in vram as well
	Engines   map[string]float64 `json:"engine_seconds"`          // since the container was first seen
	Busy      map[string]float64 `json:"engine_busy_ratio"`       // between the last two looks; empty where there was one
	Units     *float64           `json:"compute_units,omitempty"` // with work in them
}

// Lease is who has a GPU for its own.
type Lease struct {
	Held      bool       `json:"held"`
	Kind      lease.Kind `json:"kind,omitempty"` // task, container or pod
	Container string     `json:"container,omitempty"`
	Namespace string     `json:"namespace,omitempty"` // of a pod
	Pod       string     `json:"pod,omitempty"`
	Since     *time.Time `json:"since,omitempty"`
	Doubt     string     `json:"doubt,omitempty"` // why it counts as held though that can't be seen
	// Clocks is the level at which they are fixed for a task that measures, "" where they are not.
	Clocks clockpin.Level `json:"clocks,omitempty"`
}

func leaseOf(l *monitor.LeasedGPU) *Lease {
	if l == nil {
		return nil
	}
	out := &Lease{l.Held, l.Kind, l.Container, l.Namespace, l.Pod, l.Since, l.Doubt, ""}
	if l.Clocks != nil {
		out.Clocks = l.Clocks.Level
	}
	return out
}

// StatusOf is the GPUs of a snapshot. A partition whose sensors another one shows has the
// health of its GPU, and no readings but its own.
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
			Index: d.Index, Vendor: string(d.Vendor), Name: d.Name, UUID: s.Identity.UUID, PCI: d.PCI, GFX: d.GFX, VBIOS: s.Identity.VBIOS, Driver: g.Driver,
			Up: g.Up, Suspended: s.Suspended(), Power: s.Power.Now.Pointer(), PowerCap: s.Power.Cap.Pointer(),
			MemoryUsed: s.Memory.VRAM.Used.Pointer(), MemoryTotal: s.Memory.VRAM.Total.Pointer(),
			Activity: s.Activity.Graphics.Pointer(), MemoryActivity: s.Activity.Memory.Pointer(),
			Health:         Health{State: j.State, Reason: j.Reason(), Faults: j.Faults, Codes: j.Codes(), Hang: j.Signals()},
			Explained:      health.Explain(j.Codes()),
			SocketActivity: g.Socket.Pointer(), Partition: d.Partition, Partitions: number[d.PCI], Users: usersOf(g.Users), Service: serviceOf(g.Service), Lease: leaseOf(g.Lease),
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

// usersOf is nil where nobody looked, or the driver did not answer.
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
