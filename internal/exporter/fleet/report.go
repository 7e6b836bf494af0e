package fleet

import (
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
)

// Use is what a GPU does for tasks.
type Use string

// Values of Use.
const (
	Free        Use = "free"
	Leased      Use = "leased"
	InUse       Use = "in_use" // GPUs are shared, and processes have this GPU open
	Quarantined Use = "quarantined"
	OnProbation Use = "on_probation" // healthy again, in its probation
	Unknown     Use = "unknown"      // the worker does not answer, or reports no users
)

// Report is the answer of /api/v1/fleet. schema.json describes it.
type Report struct {
	Time      time.Time `json:"time"` // of the last round of questions
	Version   string    `json:"version"`
	Concourse Concourse `json:"concourse"`
	Problem   string    `json:"problem,omitempty"` // why the list of workers is missing or old
	Starts    []Start   `json:"starts"`            // by kind of GPU
	Summary   Summary   `json:"summary"`
	Workers   []Worker  `json:"workers"`
	Waiting   []Waiting `json:"waiting"`
	Coverage  []Covered `json:"coverage"`
	Today     Today     `json:"today"`
	History   History   `json:"history"`

	flakes bool // the page of flakes is on
}

// Concourse describes what the page has from Concourse.
type Concourse struct {
	URL     string     `json:"url,omitempty"`  // for users
	Time    *time.Time `json:"time,omitempty"` // of its last answer; missing: none that is current
	Problem string     `json:"problem,omitempty"`
}

// Summary counts workers and GPUs. Each GPU has one use.
type Summary struct {
	Workers     int     `json:"workers"`
	Away        int     `json:"workers_away"` // that have GPUs and do not answer
	GPUs        int     `json:"gpus"`
	Free        int     `json:"free"`
	Busy        int     `json:"busy"` // leased or in use
	Quarantined int     `json:"quarantined"`
	OnProbation int     `json:"on_probation"`
	Unknown     int     `json:"unknown"`
	Critical    int     `json:"critical"` // of any use
	Warning     int     `json:"warning"`
	Waiting     *int    `json:"waiting"` // tasks that wait for a worker; null: unknown
	Load        float64 `json:"load_ratio"`
	Power       float64 `json:"power_watts"`

	measured, powered int // GPUs with a load, and with a power
}

// Worker describes a worker and its GPUs.
type Worker struct {
	Unit     string     `json:"unit,omitempty"`     // missing if no related unit has this worker
	Platform string     `json:"platform,omitempty"` // windows, for a worker without an exporter
	Worker   string     `json:"worker,omitempty"`   // name at the web
	State    string     `json:"state,omitempty"`    // in Concourse; missing: not listed, or unknown
	URL      string     `json:"url,omitempty"`      // of its status page; missing without GPUs
	Answered bool       `json:"answered"`           // its exporter answered the last question
	Time     *time.Time `json:"time,omitempty"`     // of its last answer
	Problem  string     `json:"problem,omitempty"`
	GPUs     []GPU      `json:"gpus"`
}

// GPU describes a GPU or one partition.
type GPU struct {
	Index     int          `json:"index"`
	Vendor    string       `json:"vendor,omitempty"`
	Model     string       `json:"model,omitempty"`
	GFX       string       `json:"gfx,omitempty"`
	PCI       string       `json:"pci_bus_id,omitempty"`
	Partition int          `json:"partition"`
	Health    health.State `json:"health"`
	Reason    string       `json:"reason,omitempty"` // of a state other than healthy
	Use       Use          `json:"use"`
	pool.View
	Holders []Holder `json:"holders"`

	Temperature *float64 `json:"temperature_celsius"`
	Power       *float64 `json:"power_watts"` // of the whole GPU
	Activity    *float64 `json:"activity_ratio"`
	MemoryUsed  *float64 `json:"memory_used_bytes"`
	MemoryTotal *float64 `json:"memory_total_bytes"`

	watts float64 // share of the power of the whole GPU, 0 if it is unknown
}

// Holder describes a container that leases a GPU or has it open, and its build.
type Holder struct {
	Container string `json:"container"`
	Title     string `json:"title,omitempty"` // of a run: its user and program
	Team      string `json:"team,omitempty"`
	Pipeline  string `json:"pipeline,omitempty"`
	Job       string `json:"job,omitempty"`
	Build     string `json:"build,omitempty"`
	Step      string `json:"step,omitempty"`
	URL       string `json:"url,omitempty"` // of Concourse's page of the build
}

// Waiting describes steps that wait for a worker.
type Waiting struct {
	Team   string `json:"team,omitempty"`
	Type   string `json:"type"` // task, get, put, check
	Tags   string `json:"tags"` // joined with "_" by Concourse
	Steps  int    `json:"steps"`
	Reason string `json:"reason"`
	// Since is the time since which such steps have waited without a break, as far as this
	// program saw.
	Since *time.Time `json:"since,omitempty"`
	// Builds are started builds of the team that may wait: those without a task so far,
	// otherwise all. Of each job it is the oldest. Builds of fly execute are missing.
	Builds []Build `json:"builds"`
}

// Build identifies a build of a job.
type Build struct {
	Pipeline string `json:"pipeline,omitempty"`
	Job      string `json:"job,omitempty"`
	Build    string `json:"build,omitempty"`
	URL      string `json:"url,omitempty"` // of Concourse's page of the build
}

// Covered describes the GPUs of one architecture.
type Covered struct {
	Arch        string `json:"architecture"`
	Required    bool   `json:"required"` // by required-archs
	GPUs        int    `json:"gpus"`
	Quarantined int    `json:"quarantined"` // or in probation
	Workers     int    `json:"workers"`
}

// Today holds the usage of the day, in UTC, since the program started.
type Today struct {
	Since time.Time   `json:"since"`
	Teams []TeamUsage `json:"teams"` // most GPU-hours first
}

// TeamUsage holds the usage of a team. Team is "" for containers without a known build, and
// for all of them if names are hidden.
type TeamUsage struct {
	Team   string  `json:"team"`
	Hours  float64 `json:"gpu_hours"`
	Energy float64 `json:"energy_kwh"`
}

// History holds the last 24 hours, oldest point first. All series have the same length.
// Each point is the average of an interval, and null without data.
type History struct {
	Interval float64    `json:"interval_seconds"`
	Last     time.Time  `json:"last"` // start of the last interval
	Load     []*float64 `json:"load_ratio"`
	GPUs     []*float64 `json:"gpus"`
	Free     []*float64 `json:"free"`
	Waiting  []*float64 `json:"waiting"`
}
