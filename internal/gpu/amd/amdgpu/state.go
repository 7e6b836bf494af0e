package amdgpu

import (
	"strings"

	gm "concourse-ci-machine/internal/gpu/amd/gpumetrics"
)

// Number is a value that may not be known.
type Number struct {
	Value float64
	Known bool
}

// Known is a number that is known.
func Known(v float64) Number { return Number{v, true} }

// Pointer is nil for what is not known, as JSON wants it.
func (n Number) Pointer() *float64 {
	if !n.Known {
		return nil
	}
	return &n.Value
}

// put gives the number, unless a source before this one had it.
func (n *Number) put(v float64) {
	if !n.Known {
		*n = Known(v)
	}
}

// lower takes the other number if that is less.
func (n *Number) lower(other Number) {
	if other.Known && (!n.Known || other.Value < n.Value) {
		*n = other
	}
}

// State is what one GPU of any maker told in one reading, in base units: readers of other
// GPUs fill it, too. Nobody changes it once it is read.
type State struct {
	Identity Identity
	// RuntimePower is the state of runtime power management (power/runtime_status):
	// active, suspended, unsupported; "" where it is not told.
	RuntimePower string
	Alive        bool      // it gave values, or it sleeps and was not asked for any
	Lost         []string  // files that answered before, and do not since a while though it is awake
	Failures     []Failure // files that should have had a value

	Temperature  Temperature // the die's: the edge's, or the junction's where there is no edge sensor
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
	Hangs        Hangs
}

// Suspended reports whether the GPU is asleep to save power.
func (s *State) Suspended() bool { return strings.HasPrefix(s.RuntimePower, "suspend") }

// Temperature is of one sensor, in degrees Celsius (hwmon tempN, else gpu_metrics).
type Temperature struct {
	Sensor    string // edge, junction, mem, hbm0, ...; "" is none
	Now       Number
	Critical  Number // where the GPU protects itself
	Emergency Number // where it shuts down
}

// Nearest is the sensor that is nearest its own limit: junction and memory run hotter
// than the edge by design, and may go higher. ok is false where no sensor has a limit.
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

// APULimit limits the heat of an APU, in degrees Celsius, for which amdgpu has no temp1_crit
// (hwmon_attributes_visible in amdgpu_pm.c). AMD's product page has 95 for a Ryzen 7 7735HS,
// which laptops let run to 100 (community.amd.com, thread 751979). Other models are not known.
const APULimit = 100

// APU reports whether the GPU is a part of a processor: gpu_metrics v2 and v3 are of APUs.
func (s *State) APU() bool {
	return s.Table.Revision != nil && (s.Table.Revision.Format == 2 || s.Table.Revision.Format == 3)
}

// Power is in watts, energy in joules.
type Power struct {
	Now            Number // of the next two, or of gpu_metrics; on an APU with the processor's share
	Average, Input Number // hwmon power1_average, power1_input
	Cap, CapMax    Number // power1_cap, power1_cap_max
	Graphics, NPU  Number // shares of an APU's power (gpu_metrics v3)
	Energy         Number // since the driver was loaded, where the counter's unit is known
}

// Board is what the board and the node tell that a GPU sits in (MI350 and later): each
// GPU that can tells the same.
type Board struct {
	Temperatures []gm.BoardTemperature
	Power        Number // of the board, W
	PowerLimit   Number
	Node         Number // of all GPUs of the node with what belongs to them, W
	NodeLimit    Number
	NodeLimitMax Number
}

// Clock is what a clock domain runs at, in hertz.
type Clock struct {
	Domain   string // gfx, mem, soc, fabric, vclk, dclk
	Instance int
	Hertz    float64
}

// ClockRange is what a domain can be set to (pp_dpm_*), in hertz.
type ClockRange struct {
	Domain string
	Min    Number // NVIDIA tells none
	Max    float64
}

// Rail is a voltage (hwmon inN, else gpu_metrics), in volts.
type Rail struct {
	Name  string
	Volts float64
}

// Fan has turns per minute, and its drive from 0 to 1.
type Fan struct{ RPM, MaxRPM, Drive Number }

// Activity is busy time, 0 to 1, of the whole GPU.
type Activity struct {
	Graphics   Number // gpu_busy_percent: graphics and compute
	Memory     Number // mem_busy_percent: the memory controller
	Video      Number // vcn_busy_percent, else gpu_metrics
	Multimedia Number // gpu_metrics
	// GraphicsSum and MemorySum are the firmware's own sums, in a unit that it does not tell.
	GraphicsSum, MemorySum Number
	Engines                []Engine
}

// Engine is one engine's busy time (xcp_stats of gpu_metrics, or xcp_metrics).
type Engine struct {
	Kind      string // gfx, vcn, jpeg
	Instance  int
	Partition int
	Busy      float64 // 0 to 1
}

// Memory is in bytes, its bandwidth in bytes a second.
type Memory struct {
	VRAM         Pool // on an APU the carve-out
	Visible      Pool // the part of it that the processor can see
	GTT          Pool // system memory that the GPU may use
	BandwidthMax Number
	Traffic      []Traffic // of an APU (gpu_metrics v3)
}

// Traffic holds what one direction of memory carries, in bytes a second.
type Traffic struct {
	Of        string // package: everything in it, the processor too; npu: its share
	Direction string // read, write
	Bytes     float64
}

// Pool is a kind of memory (mem_info_*), in bytes.
type Pool struct{ Used, Total Number }

// PCIe is the link to the machine. Errors count since the GPU was found.
type PCIe struct {
	Speed, SpeedMax Number // transfers/s of a lane
	Lanes, LanesMax Number
	Replays         Number  // packets sent again
	ReplayRate      float64 // a second, over a minute or more
	Rollovers       Number  // replays that had to retrain the link
	Recoveries      Number  // from working to recovery
	OtherEnd        Number  // recoveries that the other end began
	NAKsSent        Number
	NAKsReceived    Number
	AER             []AERCount
}

// AERCount is the errors of one severity: correctable, nonfatal, fatal.
type AERCount struct {
	Severity string
	Errors   float64
}

// XGMI is the links between GPUs: transfers/s of a lane.
type XGMI struct {
	Links        []Link
	Lanes, Speed Number
}

// Link is one XGMI link. Not every link of a board is wired, and in a guest all are
// told as down: one is missing that was up before.
type Link struct {
	Up            Number // 0 or 1
	WasUp         bool   // since the files were opened
	Read, Written Number // bytes
}

// Throttling is what slows the GPU down.
type Throttling struct {
	Active []Throttle
	// Limits is how many limits of heat slow the GPU down, ThermalShare the share of
	// the time that it is under one: 0 to 1.
	Limits, ThermalShare Number
	Residency            []Residency
	Ticks                Number // the firmware's, whatever the limits
	Limited              []Limited
}

// Throttle is a limit that the driver tells of.
type Throttle struct {
	Reason string
	Active bool
}

// Residency is the firmware's ticks under a limit.
type Residency struct {
	Reason string
	Ticks  float64
}

// Limited is a sum of the time that a compute die ran below the clock that the host
// asked for.
type Limited struct {
	Reason              string
	Instance, Partition int
	Sum                 float64
}

// Division is how the GPU is divided, where it can be.
type Division struct {
	Partitions      Number
	Compute, Memory string // current_compute_partition "CPX", current_memory_partition "NPS1"
}

// Inventory is what a GPU is made of and set to.
type Inventory struct {
	Firmware         []Firmware
	MemoryVendor     string
	PerformanceLevel string // power_dpm_force_performance_level
}

// Firmware is a component's version, as the driver writes it.
type Firmware struct{ Component, Version string }

// Table is what is known of the driver's tables.
type Table struct {
	Revision *gm.Revision // of gpu_metrics; nil without one that can be read
	Unknown  []UnknownTable
}

// UnknownTable counts the readings of a table of a revision that has no layout here.
type UnknownTable struct {
	File, Revision string
	Readings       float64
}

// Failure is a file that should have had a value and gave none.
type Failure struct {
	File  string // last part of the name: hwmon numbers change between boots
	Errno string // symbol as in errno(3); or "format", "range", "damaged", "timeout"
}
