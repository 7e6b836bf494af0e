package amdgpu

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"concourse-ci-machine/internal/gpu/sysfile"
)

// slowState is what is read on a timer only: what hardly changes, and the error
// counters, each of which the driver gets from the hardware.
type slowState struct {
	limits             []Temperature // limits of those sensors that have any
	cap, capMax        Number        // W
	maxRPM             Number
	clocks             []ClockRange
	speedMax, lanesMax Number
	aer                []AERCount
	board              Board
	compute, memory    string // how the GPU is divided
	inventory          Inventory
	ras                RAS
	fatal              int64 // events in ras/event_state; -1: there is none
}

// Poll is the timer's reading. It leaves a sleeping GPU alone, whose counters
// can't have changed.
func (r *Reader) Poll() []Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.current() {
		return nil // the next reading opens it
	}
	r.begin()
	r.s.RuntimePower = r.status()
	if r.s.Suspended() || r.sensors.dir == "" && r.slow == nil {
		return nil
	}
	r.files.Retry() // the driver may have made more by now
	r.readSlow()
	return r.s.Failures
}

// readSlow reads all of it anew.
func (r *Reader) readSlow() {
	s := &slowState{fatal: -1}
	r.readLimits(s)
	r.readClockRanges(s)
	r.readModes(s)
	r.readBoard(s)
	r.readInventory(s)
	r.readRAS(s, r.slow)
	r.slow = s
}

// addSlow adds what the timer read last.
func (r *Reader) addSlow() {
	slow, s := r.slow, &r.s
	if slow == nil {
		return
	}
	for _, limit := range slow.limits {
		t := s.sensor(limit.Sensor)
		t.Critical, t.Emergency = limit.Critical, limit.Emergency
		if s.Temperature.Sensor == limit.Sensor {
			s.Temperature.Critical, s.Temperature.Emergency = limit.Critical, limit.Emergency
		}
	}
	s.Power.Cap, s.Power.CapMax, s.Fan.MaxRPM = slow.cap, slow.capMax, slow.maxRPM
	s.ClockRanges, s.PCIe.AER = slow.clocks, slow.aer
	s.PCIe.SpeedMax, s.PCIe.LanesMax = slow.speedMax, slow.lanesMax
	s.Division.Compute, s.Division.Memory = slow.compute, slow.memory
	s.Inventory, s.RAS, s.Board = slow.inventory, slow.ras, slow.board
}

// slowNumber reads a file that is not kept open, with a number that says
// something only where it is more than 0.
func (r *Reader) slowNumber(p string, max, times, per float64) Number {
	text := r.once(p)
	if text == "" {
		return Number{}
	}
	v, ok := sysfile.Leading([]byte(text))
	if !ok || v <= 0 || v > max || v == math.MaxUint32 {
		return Number{}
	}
	return Known(v * times / per)
}

// readLimits reads the limits of temperatures, power, fan and link. A limit of -273
// degrees is one that there is none of.
func (r *Reader) readLimits(s *slowState) {
	for _, ch := range r.sensors.temps {
		t := Temperature{Sensor: ch.label}
		t.Critical = r.slowNumber(ch.base+"_crit", maxCelsius*1000, 1, 1000)
		t.Emergency = r.slowNumber(ch.base+"_emergency", maxCelsius*1000, 1, 1000)
		if t.Critical.Known || t.Emergency.Known {
			s.limits = append(s.limits, t)
		}
	}
	s.speedMax, s.lanesMax = r.linkLimits()
	if dir := r.sensors.dir; dir != "" {
		s.cap = r.slowNumber(path.Join(dir, "power1_cap"), maxWatts*1e6, 1, 1e6)
		s.capMax = r.slowNumber(path.Join(dir, "power1_cap_max"), maxWatts*1e6, 1, 1e6)
		s.maxRPM = r.slowNumber(path.Join(dir, "fan1_max"), maxRPM, 1, 1)
	}
}

// linkLimits returns the most that the link of the GPU to its slot can do: what the GPU can,
// or the port above it if that can less. The driver's table has the speed of that link, and
// a switch on the GPU's own board, whose ports are AMD's as well, is passed over.
func (r *Reader) linkLimits() (speed, lanes Number) {
	for dir := r.device.Dir; strings.Count(path.Base(dir), ":") == 2; dir = path.Dir(dir) {
		speed.lower(r.slowNumber(path.Join(dir, "max_link_speed"), 1000, 1e9, 1))
		lanes.lower(r.slowNumber(path.Join(dir, "max_link_width"), 64, 1, 1))
		if dir != r.device.Dir && r.once(path.Join(dir, "vendor")) != "0x1002" {
			break
		}
	}
	return speed, lanes
}

// clockFiles are the clock tables, by the name of the domain.
var clockFiles = [...][2]string{{"gfx", "pp_dpm_sclk"}, {"mem", "pp_dpm_mclk"}, {"soc", "pp_dpm_socclk"},
	{"fabric", "pp_dpm_fclk"}, {"vclk", "pp_dpm_vclk"}, {"dclk", "pp_dpm_dclk"}}

func (r *Reader) readClockRanges(s *slowState) {
	for _, f := range clockFiles {
		if low, high, ok := clockRange(r.once(path.Join(r.device.Dir, f[1]))); ok {
			s.clocks = append(s.clocks, ClockRange{f[0], Known(low * 1e6), high * 1e6})
		}
	}
}

// clockRange finds the ends of a table of lines "1: 2310Mhz *", in MHz. While
// the GPU is idle some drivers add the present clock as a line of its own,
// "S: 19Mhz *", which is no setting; without the mark it is level 0 by another name
// (RX 9070). Fine-grained tables (RDNA and newer) have three levels, of which the
// middle one is the present clock and not a limit either: 31 MHz between 500 and 2526
// on an RX 7900 XTX.
func clockRange(text string) (low, high float64, ok bool) {
	var levels []float64
	present := -1
	for line := range strings.Lines(text) {
		number, rest, found := strings.Cut(strings.TrimSpace(line), ":")
		_, err := strconv.ParseUint(number, 10, 8)
		asleep := number == "S" && !strings.Contains(rest, "*")
		if !found || err != nil && !asleep {
			continue
		}
		word, mark, _ := strings.Cut(strings.TrimSpace(rest), " ")
		v, err := strconv.ParseUint(strings.TrimSuffix(strings.ToLower(word), "mhz"), 10, 16)
		if err != nil || v == 0 || !strings.HasSuffix(strings.ToLower(word), "mhz") {
			continue
		}
		if strings.Contains(mark, "*") {
			present = len(levels)
		}
		levels = append(levels, float64(v))
	}
	if len(levels) == 3 && present == 1 {
		levels = []float64{levels[0], levels[2]}
	}
	if len(levels) == 0 {
		return 0, 0, false
	}
	return slices.Min(levels), slices.Max(levels), true
}

// readModes reads how the GPU is divided, where it can be.
func (r *Reader) readModes(s *slowState) {
	s.compute = r.once(path.Join(r.device.Dir, "current_compute_partition"))
	s.memory = r.once(path.Join(r.device.Dir, "current_memory_partition"))
}

// division returns the current modes as readModes reads them, "-" if the GPU has none.
func (r *Reader) division() string {
	var s slowState
	r.readModes(&s)
	return s.compute + "-" + s.memory
}

// rate is the growth of a counter.
type rate struct {
	at    time.Time
	value float64
	last  float64 // per second
}

// next takes a value, and gives the rate over the last minute or more.
func (r *rate) next(now time.Time, v float64) float64 {
	switch since := now.Sub(r.at); {
	case r.at.IsZero() || v < r.value:
		*r = rate{at: now, value: v}
	case since >= time.Minute:
		*r = rate{at: now, value: v, last: (v - r.value) / since.Seconds()}
	}
	return r.last
}
