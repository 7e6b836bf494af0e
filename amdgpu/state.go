package amdgpu

import (
	"strings"
	"time"

	gm "github.com/fourdollars/concourse-ci-machine/amdgpu/gpumetrics"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/amd/chips"
)

// Number holds a value that may be unknown.
type Number struct {
	Value float64
	Known bool
}

// Known returns a known number.
func Known(v float64) Number { return Number{v, true} }

// Pointer returns nil for an unknown value, which JSON writes as null.
func (n Number) Pointer() *float64 {
	if !n.Known {
		return nil
	}
	return &n.Value
}

// setDefault sets the number, unless a previous source set it.
func (n *Number) setDefault(v float64) {
	if !n.Known {
		*n = Known(v)
	}
}

// lower takes the other number if it is less.
func (n *Number) lower(other Number) {
	if other.Known && (!n.Known || other.Value < n.Value) {
		*n = other
	}
}

// State holds one reading of one GPU, in base units. It is not changed after the reading.
type State struct {
	Identity Identity
	// RuntimePower is the state of runtime power management (power/runtime_status): active,
	// suspended, unsupported; "" if unknown.
	RuntimePower string
	Alive        bool      // it has values, or is suspended and was not read
	Refused      bool      // the driver rejected every file that it was asked for, as in a reset
	Fatal        time.Time // last fatal error (ras/event_state) since the Reader was made, or zero
	Lost         []string  // files that answered before, and have failed for a while although it is awake
	Failures     []Failure // files without their expected value

	Temperature  Temperature // of the die: the edge, or the junction without an edge sensor
	Temperatures []Temperature
	Power        Power
	Board        Board
	Clocks       []Clock
	ClockRanges  []ClockRange
	Rails        []Rail
	Fan          Fan
	Activity     Activity
	Memory       Memory
	PCIe         PCIe
	XGMI         XGMI
	RAS          RAS
	Throttling   Throttling
	Division     Division
	Inventory    Inventory
	Table        Table
}

// Awake reports whether the GPU is not asleep, and not about to change. A GPU without
// power management, or with an unknown state, is awake.
func (s *State) Awake() bool {
	return s.RuntimePower == "active" || s.RuntimePower == "unsupported" || s.RuntimePower == ""
}

// Suspended reports whether the GPU is asleep to save power.
func (s *State) Suspended() bool { return strings.HasPrefix(s.RuntimePower, "suspend") }

// Temperature holds the values of one sensor, in degrees Celsius (hwmon tempN, otherwise
// gpu_metrics).
type Temperature struct {
	Sensor    string // edge, junction, mem, hbm0, ...; "" means none
	Now       Number
	Critical  Number // the GPU protects itself
	Emergency Number // the GPU shuts down
}

// Nearest returns the sensor nearest its own limit, because junction and memory run hotter
// than the edge by design. ok is false if no sensor has a limit.
func (s *State) Nearest() (nearest Temperature, ok bool) {
	for _, t := range s.Temperatures {
		switch {
		case !t.Now.Known || !t.Critical.Known:
		case !ok || t.Now.Value/t.Critical.Value > nearest.Now.Value/nearest.Critical.Value:
			nearest, ok = t, true
		}
	}
	return nearest, ok
}

// APU reports whether the GPU is part of a processor: by its architecture, or because only
// APUs have gpu_metrics v2 and v3.
func (s *State) APU() bool {
	return IsIntegrated(s.Identity.GFX) ||
		s.Table.Revision != nil && (s.Table.Revision.Format == 2 || s.Table.Revision.Format == 3)
}

// IsIntegrated reports whether only processors have an architecture (amdkfd/kfd_device.c).
// MI300A has that of a card, and its own memory.
func IsIntegrated(gfx string) bool { return chips.Integrated(gfx) }

// ProgramMemory returns the memory for programs: VRAM, and on an APU GTT too.
func (s *State) ProgramMemory() Pool {
	p, gtt := s.Memory.VRAM, s.Memory.GTT
	if s.APU() && p.Used.Known && p.Total.Known && gtt.Used.Known && gtt.Total.Known {
		p.Used.Value, p.Total.Value = p.Used.Value+gtt.Used.Value, p.Total.Value+gtt.Total.Value
	}
	return p
}

// Power holds watts, and energy in joules.
type Power struct {
	Now            Number // one of the next two, or from gpu_metrics; for an APU including the processor
	Average, Input Number // hwmon power1_average, power1_input
	Cap, CapMax    Number // power1_cap, power1_cap_max
	Graphics, NPU  Number // shares of an APU's power (gpu_metrics v3)
	Energy         Number // since the driver was loaded, if the counter's unit is known
}

// Board holds values of the board and the node of a GPU (MI350 and later). All GPUs with
// these values report the same.
type Board struct {
	Temperatures []gm.BoardTemperature
	Power        Number // of the board, W
	PowerLimit   Number
	Node         Number // of all GPUs of the node and their supporting parts, W
	NodeLimit    Number
	NodeLimitMax Number
}

// Clock holds the present clock of a domain, in hertz.
type Clock struct {
	Domain   string // gfx, mem, soc, fabric, vclk, dclk
	Instance int
	Hertz    float64
}

// ClockRange holds the range of a domain's settings (pp_dpm_*), in hertz.
type ClockRange struct {
	Domain string
	Min    Number // missing for NVIDIA
	Max    float64
}

// Rail holds a voltage (hwmon inN, otherwise gpu_metrics), in volts.
type Rail struct {
	Name  string
	Volts float64
}

// Fan holds turns per minute, and the drive from 0 to 1.
type Fan struct{ RPM, MaxRPM, Drive Number }

// Activity holds the busy time of the whole GPU, 0 to 1.
type Activity struct {
	Graphics   Number // gpu_busy_percent: graphics and compute
	Memory     Number // mem_busy_percent: the memory controller
	Video      Number // vcn_busy_percent, otherwise gpu_metrics
	Multimedia Number // gpu_metrics
	// GraphicsSum and MemorySum are the firmware's own sums, in an unknown unit.
	GraphicsSum, MemorySum Number
	Engines                []Engine
}

// Engine holds one engine's busy time (xcp_stats of gpu_metrics, or xcp_metrics).
type Engine struct {
	Kind      string // gfx, vcn, jpeg
	Instance  int
	Partition int
	Busy      float64 // 0 to 1
}

// Memory holds bytes, and the bandwidth in bytes a second.
type Memory struct {
	VRAM         Pool // on an APU the carve-out
	Visible      Pool // the part that the processor can see
	GTT          Pool // system memory that the GPU may use
	BandwidthMax Number
	Traffic      []Traffic // of an APU (gpu_metrics v3)
}

// Traffic holds the traffic of one direction of memory, in bytes a second.
type Traffic struct {
	Scope     string // package: everything in it, including the processor; npu: its share
	Direction string // read, write
	Bytes     float64
}

// Pool holds a kind of memory (mem_info_*), in bytes.
type Pool struct{ Used, Total Number }

// PCIe describes the link to the machine. Errors count since the GPU was found.
type PCIe struct {
	Speed, SpeedMax Number // transfers/s of a lane
	Lanes, LanesMax Number
	Hidden          bool    // no port above the GPU shows its link, as in a guest
	Replays         Number  // packets sent again
	ReplayRate      float64 // a second, over a minute or more
	Rollovers       Number  // replays that had to retrain the link
	Recoveries      Number  // from working to recovery
	OtherEnd        Number  // recoveries that the other end started
	NAKsSent        Number
	NAKsReceived    Number
	AER             []AERCount
	PortAER         []AERCount // of the ports above the GPU, the nearest first
}

// AERCount counts the errors of one severity: correctable, nonfatal, fatal.
type AERCount struct {
	Port     string // PCI address; "" for the GPU's own end
	Severity string
	Errors   float64
}

// XGMI describes the links between GPUs: transfers/s of a lane.
type XGMI struct {
	Links        []Link
	Lanes, Speed Number
}

// Link describes one XGMI link. Some links of a board are not wired, and a guest sees all
// links as down. So only a link that was up before can be lost.
type Link struct {
	Up            Number // 0 or 1
	WasUp         bool   // since the files were opened
	Read, Written Number // bytes
}

// Throttling describes the limits that slow the GPU down.
type Throttling struct {
	Active []Throttle
	// Limits is the number of thermal limits that slow the GPU down. ThermalShare is the
	// share of time under one of them: 0 to 1.
	Limits, ThermalShare Number
	Residency            []Residency
	Ticks                Number // all ticks of the firmware
	Limited              []Limited
}

// Throttle describes a limit that the driver reports.
type Throttle struct {
	Reason string
	Active bool
}

// Residency counts the firmware's ticks under a limit.
type Residency struct {
	Reason string
	Ticks  float64
}

// Limited sums the time that a compute die ran below the host's requested clock.
type Limited struct {
	Reason              string
	Instance, Partition int
	Sum                 float64
}

// Division describes the partitioning of the GPU, if it can be partitioned.
type Division struct {
	Partitions      Number
	Compute, Memory string // current_compute_partition "CPX", current_memory_partition "NPS1"
}

// Inventory holds the components and settings of a GPU.
type Inventory struct {
	Firmware         []Firmware
	MemoryVendor     string
	PerformanceLevel string // power_dpm_force_performance_level
}

// Firmware holds a component's version, as the driver writes it.
type Firmware struct{ Component, Version string }

// Table describes the driver's tables.
type Table struct {
	Revision *gm.Revision // of gpu_metrics; nil without a readable one
	Unknown  []UnknownTable
}

// UnknownTable counts the readings of a table with an unknown revision.
type UnknownTable struct {
	File, Revision string
	Readings       float64
}

// Failure describes a file without its expected value.
type Failure struct {
	File  string // last part of the name: hwmon numbers change between boots
	Errno string // symbol as in errno(3); or "format", "range", "damaged", "timeout"
}

// BitShare is the assumed share of time for a bit, which shows a limit now but not its
// duration.
const BitShare = .2

// Unspecified is the reason of a limit if the GPU has its own codes, or if no sensor
// confirms the cause.
const Unspecified = "unspecified"

// nearLimit is the share of a sensor's limit above which the firmware's thermal bit is
// accepted: RDNA 3 and 4 set the bit of the hotspot on idle, cool cards (drm/amd issue
// 3251).
const nearLimit = .9

// near reports whether the sensor is near its limit. ok is false if the sensor or its limit
// is unknown.
func (s *State) near(name string) (near, ok bool) {
	for _, t := range s.Temperatures {
		if t.Sensor == name && t.Now.Known && t.Critical.Known {
			return t.Now.Value >= nearLimit*t.Critical.Value, true
		}
	}
	return false, false
}

// sensor returns the entry of a sensor, and adds it if it is missing.
func (s *State) sensor(name string) *Temperature {
	for i := range s.Temperatures {
		if s.Temperatures[i].Sensor == name {
			return &s.Temperatures[i]
		}
	}
	s.Temperatures = append(s.Temperatures, Temperature{Sensor: name})
	return &s.Temperatures[len(s.Temperatures)-1]
}

// addClock adds a clock, unless a previous source had it.
func (s *State) addClock(domain string, instance int, hertz float64) {
	for _, c := range s.Clocks {
		if c.Domain == domain && c.Instance == instance {
			return
		}
	}
	s.Clocks = append(s.Clocks, Clock{domain, instance, hertz})
}

// addRail adds a voltage, unless a previous source had it.
func (s *State) addRail(name string, volts float64) {
	for _, r := range s.Rails {
		if r.Name == name {
			return
		}
	}
	s.Rails = append(s.Rails, Rail{name, volts})
}
