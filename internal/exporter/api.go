package exporter

import (
	"encoding/json"
	"math"
	"net/http"
	"time"

	"concourse-ci-machine/internal/exporter/health"
)

// Report is /api/v1/gpus.
type Report struct {
	Unit    string    `json:"unit,omitempty"` // Juju's name, where the exporter was given it
	Host    string    `json:"host"`
	Version string    `json:"version"` // of the exporter
	Time    time.Time `json:"time"`
	GPUs    []Status  `json:"gpus"`
}

// Report reads all GPUs, as Status does.
func (c *Collector) Report() Report {
	name, err := c.root.ReadText("/proc/sys/kernel/hostname")
	if err != nil {
		name, _ = c.root.ReadText("/etc/hostname") // a root that is no running machine; "" where there is none either
	}
	return Report{Unit: c.options.Unit, Host: name, Version: c.version, Time: c.now().UTC(), GPUs: c.Status()}
}

// Status is one GPU in /api/v1/gpus. What is not known is null, or missing.
type Status struct {
	Index     int    `json:"index"`
	Name      string `json:"name"`
	UUID      string `json:"uuid"`
	PCI       string `json:"pci_bus_id"`
	GFX       string `json:"gfx,omitempty"`
	Partition int    `json:"partition"`
	Up        bool   `json:"up"`
	Suspended bool   `json:"suspended"`
	Health    Health `json:"health"`

	Temperature      *float64 `json:"temperature_celsius"`
	TemperatureLimit *float64 `json:"temperature_limit_celsius"`
	Sensor           string   `json:"temperature_sensor,omitempty"`
	Power            *float64 `json:"power_watts"`
	PowerCap         *float64 `json:"power_cap_watts"`
	MemoryUsed       *float64 `json:"memory_used_bytes"`
	MemoryTotal      *float64 `json:"memory_total_bytes"`
	Activity         *float64 `json:"activity_ratio"`
	MemoryActivity   *float64 `json:"memory_activity_ratio"`

	Explained []Explanation `json:"explained,omitempty"`
	History   *History      `json:"history,omitempty"`
}

// Health is a GPU's judgement; package health has the formula.
type Health struct {
	State  health.State `json:"state"`
	Score  *float64     `json:"score"`
	Reason string       `json:"reason"`
	Hang   []string     `json:"hang_signals,omitempty"`
}

// Status reads all GPUs and adds what Record has kept of them. A partition after
// the first has the health of its GPU, whose sensors it shares, and no readings
// of its own.
func (c *Collector) Status() []Status {
	all := c.states()
	for i := range all {
		all[i].Explained, all[i].History = explain(all[i].Health), c.past.of(all[i])
	}
	return all
}

// states are the GPUs as they are now.
func (c *Collector) states() []Status {
	r := c.collect()
	defer c.done(r)
	out := make([]Status, 0, len(r.samples))
	whole := map[string]Health{}
	for i, s := range r.samples {
		d, v := r.found.devices[i], s.vitals
		st := Status{
			Index: d.Index, Name: d.Name, UUID: s.Identity.UUID, PCI: d.PCI, GFX: d.GFX, Partition: d.Partition,
			Up: r.up[i], Suspended: v.Suspended, Power: v.Power.pointer(), PowerCap: v.PowerCap.pointer(), MemoryUsed: v.Used.pointer(),
			MemoryTotal: v.Total.pointer(), Activity: v.Activity.pointer(), MemoryActivity: v.Memory.pointer(),
			Health: Health{State: v.Verdict.State, Reason: v.Verdict.Reason, Hang: v.Hang},
		}
		if score := math.Round(v.Verdict.Score*10) / 10; st.Health.State != "" && !math.IsNaN(score) {
			st.Health.Score = &score
		}
		if t := v.Temperature; t.Sensor != "" {
			st.Temperature, st.Sensor = &t.Value, t.Sensor
			if t.Limit > 0 {
				st.TemperatureLimit = &t.Limit
			}
		}
		if shared, ok := whole[d.Dir]; ok && st.Health.State == "" {
			st.Health = shared
		}
		if _, ok := whole[d.Dir]; !ok {
			whole[d.Dir] = st.Health
		}
		out = append(out, st)
	}
	return out
}

func (s *scrapes) gpus(w http.ResponseWriter, _ *http.Request, b []byte) (string, []byte) {
	text, err := json.MarshalIndent(s.collector.Report(), "", "  ")
	if err != nil {
		http.Error(w, "cannot write GPUs: "+err.Error(), http.StatusInternalServerError)
		return "", b
	}
	return "application/json", append(append(b, text...), '\n')
}
