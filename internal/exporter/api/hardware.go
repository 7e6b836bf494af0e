package api

import (
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
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
