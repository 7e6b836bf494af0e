// Package api defines the answer of /api/v1/gpus and its texts for people: on the page, in
// dispatch gpu top, in statuses. Clients of the exporter need only this package. It reads
// no GPUs.
package api

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

const (
	// Deadline is the longest wait of an answer for a GPU. A healthy GPU answers within
	// milliseconds, and Prometheus gives up on the whole scrape after 10 s.
	Deadline = 2 * time.Second
	// Timeout is the longest wait of a client: an answer waits for a search and for a GPU that
	// hangs.
	Timeout = 2*Deadline + 2*time.Second
	// ReadPeriod is the time between two records of a Report in a File. It is longer than the
	// 5 s after which an idle GPU suspends, so that a reading does not keep GPUs awake.
	ReadPeriod = 6 * time.Second
	// Stale is the age at which the Report of a File is no longer current.
	Stale = 30 * time.Second
)

// File declares the file that the owner of the GPUs, rocm-exporter write-gpus, writes every
// ReadPeriod. Its texts are clean, and it has neither leases nor quarantine.
func File(path string) statefile.File[Report] { return statefile.File[Report]{Path: path, Mode: 0o644} }

// Read returns the report of a File. It fails if the report is missing, old or without GPUs.
func Read(r host.Root, path string, now time.Time) (Report, error) {
	report, err := File(path).Read(r)
	switch {
	case err != nil:
	case report.Time.IsZero():
		err = errors.New("the GPUs were not read yet")
	case now.Sub(report.Time).Abs() > Stale:
		err = fmt.Errorf("the last reading of the GPUs is of %s", quarantine.FormatTime(report.Time))
	case len(report.GPUs) == 0:
		err = errors.New("no GPU was found")
	}
	return report, err
}

// Report is the answer of /api/v1/gpus, and the content of a File.
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

	// Integrated is set for an APU: its memory is the carve-out and the part of the machine's
	// memory that it may use (GTT).
	Integrated bool `json:"integrated,omitempty"`

	Hardware

	Users []User `json:"users"` // null: unknown
	// Processes have memory of the GPU, the largest first.
	Processes []usage.Process `json:"processes,omitempty"`
	pool.View
	PastFaults []PastFault `json:"past_faults,omitempty"` // the newest first

	Explained []health.Explanation `json:"explained,omitempty"`
	History   *History             `json:"history,omitempty"`
}

// Slot returns the GPU that is described.
func (s Status) Slot() gpu.Slot {
	id, _ := strings.CutPrefix(s.UUID, "GPU-")
	if id == s.UUID {
		id = "" // it is a serial number or an address
	}
	return gpu.Slot{Vendor: gpu.Vendor(s.Vendor), Index: s.Index, PCI: s.PCI, Partition: s.Partition, UniqueID: id,
		GFX: s.GFX, Model: s.Name}
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

// History holds at most the last 15 minutes of a GPU, oldest point first. All series have
// the same length and end at Last. An unknown value is null.
type History struct {
	Interval    float64    `json:"interval_seconds"`
	Last        time.Time  `json:"last"`
	Temperature []*float64 `json:"temperature_celsius"`
	Power       []*float64 `json:"power_watts"`
	Memory      []*float64 `json:"memory_used_bytes"`
	Activity    []*float64 `json:"activity_ratio"`
}
