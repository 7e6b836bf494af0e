package amdgpu

import (
	"errors"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	gm "github.com/fourdollars/concourse-ci-machine/amdgpu/gpumetrics"
	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// slowState holds the values of the timer: values that rarely change, and the error
// counters, each of which the driver reads from the hardware.
type slowState struct {
	limits             []Temperature // of those sensors that have any
	cap, capMax        Number        // W
	maxRPM             Number
	clocks             []ClockRange
	speedMax, lanesMax Number
	hidden             bool // see PCIe
	aer, portAER       []AERCount
	board              Board
	compute, memory    string // partitioning of the GPU
	inventory          Inventory
	ras                RAS
	pagesAt            time.Time // of the reading of the bad pages
	fatal              int64     // events in ras/event_state; -1: no such file
}

// Poll reads the values of the timer. It skips a suspended GPU, because its counters cannot
// have changed.
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
	r.files.Retry() // the driver may have created more files
	r.readSlow()
	return r.s.Failures
}

// readSlow reads all values of the timer.
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

// addSlow adds the last values of the timer.
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
	s.ClockRanges, s.PCIe.AER, s.PCIe.PortAER = slow.clocks, slow.aer, slow.portAER
	s.PCIe.limit(slow)
	s.Division.Compute, s.Division.Memory = slow.compute, slow.memory
	s.Inventory, s.RAS, s.Board = slow.inventory, slow.ras, slow.board
}

// slowNumber reads a number from a file that is not kept open. Only numbers above 0 are
// valid.
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

// readLimits reads the limits of temperatures, power, fan and link. -273 degrees means that
// there is no limit.
func (r *Reader) readLimits(s *slowState) {
	for _, ch := range r.sensors.temps {
		t := Temperature{Sensor: ch.label}
		t.Critical = r.slowNumber(ch.base+"_crit", maxCelsius*1000, 1, 1000)
		t.Emergency = r.slowNumber(ch.base+"_emergency", maxCelsius*1000, 1, 1000)
		if t.Critical.Known || t.Emergency.Known {
			s.limits = append(s.limits, t)
		}
	}
	s.speedMax, s.lanesMax, s.hidden = r.linkLimits()
	if dir := r.sensors.dir; dir != "" {
		s.cap = r.slowNumber(path.Join(dir, "power1_cap"), maxWatts*1e6, 1, 1e6)
		s.capMax = r.slowNumber(path.Join(dir, "power1_cap_max"), maxWatts*1e6, 1, 1e6)
		s.maxRPM = r.slowNumber(path.Join(dir, "fan1_max"), maxRPM, 1, 1)
	}
}

// slot returns the directory of the device at the slot: the GPU, or the first port of a
// switch on its own board. The ports of such a switch are AMD's too.
func (r *Reader) slot() (slot string) {
	dir := r.device.Dir
	slot = dir
	for range pci.Ports(dir) {
		if dir = path.Dir(dir); r.once(path.Join(dir, "vendor")) != "0x1002" {
			break
		}
		if r.root.Exists(path.Join(dir, "current_link_width")) {
			slot = dir
		}
	}
	return slot
}

// linkLimits returns the maximum of the link between the GPU and its slot: the lower
// maximum of the GPU and of the port above it. The driver's table has the speed of that
// link. A switch of AMD's on the GPU's own board is skipped. hidden means that no port
// shows its maximum.
func (r *Reader) linkLimits() (speed, lanes Number, hidden bool) {
	hidden = true
	for dir := r.device.Dir; strings.Count(path.Base(dir), ":") == 2; dir = path.Dir(dir) {
		speed.lower(r.slowNumber(path.Join(dir, "max_link_speed"), 1000, 1e9, 1))
		most := r.slowNumber(path.Join(dir, "max_link_width"), 64, 1, 1)
		lanes.lower(most)
		if dir == r.device.Dir {
			continue
		}
		if hidden = !most.Known; r.once(path.Join(dir, "vendor")) != "0x1002" {
			break
		}
	}
	return speed, lanes, hidden
}

// limit adds the maximum. A link above it is another one, such as the one inside of the card.
func (p *PCIe) limit(slow *slowState) {
	p.SpeedMax, p.LanesMax, p.Hidden = slow.speedMax, slow.lanesMax, slow.hidden
	if p.SpeedMax.Known && p.Speed.Value > p.SpeedMax.Value {
		p.Speed = Number{}
	}
	if p.LanesMax.Known && p.Lanes.Value > p.LanesMax.Value {
		p.Lanes = Number{}
	}
}

// clockFiles maps domains to their clock tables.
var clockFiles = [...][2]string{{"gfx", "pp_dpm_sclk"}, {"mem", "pp_dpm_mclk"}, {"soc", "pp_dpm_socclk"},
	{"fabric", "pp_dpm_fclk"}, {"vclk", "pp_dpm_vclk"}, {"dclk", "pp_dpm_dclk"}}

func (r *Reader) readClockRanges(s *slowState) {
	for _, f := range clockFiles {
		if low, high, ok := clockRange(r.once(path.Join(r.device.Dir, f[1]))); ok {
			s.clocks = append(s.clocks, ClockRange{Domain: f[0], Min: Known(low * 1e6),
				Max: high * 1e6})
		}
	}
}

// clockRange returns the ends of a table of lines "1: 2310Mhz *", in MHz. While the GPU is
// idle, some drivers add the present clock as a line "S: 19Mhz *", which is not a setting.
// Without the mark it is level 0 by another name (RX 9070). Fine-grained tables (RDNA and
// newer) have three levels, and the middle one is the present clock, not a limit: 31 MHz
// between 500 and 2526 on an RX 7900 XTX.
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

// readModes reads the partitioning of the GPU, if it can be partitioned.
func (r *Reader) readModes(s *slowState) {
	s.compute = r.once(path.Join(r.device.Dir, "current_compute_partition"))
	s.memory = r.once(path.Join(r.device.Dir, "current_memory_partition"))
}

// division returns the current modes from readModes, "-" if the GPU has none.
func (r *Reader) division() string {
	var s slowState
	r.readModes(&s)
	return s.compute + "-" + s.memory
}

// rate computes the growth of a counter.
type rate struct {
	at    time.Time
	value float64
	last  float64 // per second
}

// update takes a value, and returns the rate over the last minute or more.
func (r *rate) update(now time.Time, v float64) float64 {
	switch since := now.Sub(r.at); {
	case r.at.IsZero() || v < r.value:
		*r = rate{at: now, value: v}
	case since >= time.Minute:
		*r = rate{at: now, value: v, last: (v - r.value) / since.Seconds()}
	}
	return r.last
}

// maxNodeWatts exceeds the power of a node of eight GPUs.
const maxNodeWatts = 100_000

// readBoard reads board/ (MI350) or board/npm/ (later). It runs on the timer, because the
// driver queries the firmware for each of these files.
func (r *Reader) readBoard(s *slowState) {
	dir := path.Join(r.device.Dir, "board")
	if !r.root.Exists(dir) {
		return
	}
	power := path.Join(dir, "npm")
	if !r.root.Exists(power) {
		power = dir
	}
	b := &s.board
	for _, file := range []struct {
		dir, name string
		to        *Number
	}{
		{power, "node_power", &b.Node}, {power, "cur_node_power_limit", &b.NodeLimit},
		{power, "max_node_power_limit", &b.NodeLimitMax},
		{dir, "baseboard_power", &b.Power}, {dir, "baseboard_power_limit", &b.PowerLimit},
	} {
		*file.to = r.slowNumber(path.Join(file.dir, file.name), maxNodeWatts, 1, 1)
	}
	b.Temperatures = append(r.boardTable(dir, "baseboard_temp", gm.DecodeBaseboard),
		r.boardTable(dir, "gpuboard_temp", gm.DecodeGPUBoard)...)
}

func (r *Reader) boardTable(dir, name string,
	decode func([]byte) ([]gm.BoardTemperature, error)) []gm.BoardTemperature {
	r.at.Store(&name)
	b, err := sysfile.ReadOnce(r.root.Path(path.Join(dir, name)))
	if err != nil {
		if !sysfile.Absent(err) {
			r.fail(name, sysfile.ErrnoName(err))
		}
		return nil
	}
	all, err := decode(b)
	switch {
	case errors.Is(err, gm.ErrUnknown):
		r.countUnknown(name, gm.Revision{Format: b[2], Content: b[3]}.String())
	case err != nil:
		r.fail(name, "damaged")
	}
	return all
}

// readInventory reads components, settings and PCIe's error counts of a GPU. They help to
// compare a faulty GPU with equal ones.
func (r *Reader) readInventory(s *slowState) {
	entries, _ := r.root.ReadDir(path.Join(r.device.Dir, "fw_version"))
	for _, e := range entries {
		component, ok := strings.CutSuffix(e.Name(), "_fw_version")
		version := r.once(path.Join(r.device.Dir, "fw_version", e.Name()))
		if ok && version != "" && strings.Trim(version, "0x") != "" { // all zeros: not loaded
			s.inventory.Firmware = append(s.inventory.Firmware,
				Firmware{Component: component, Version: version})
		}
	}
	s.inventory.MemoryVendor = r.once(path.Join(r.device.Dir, "mem_info_vram_vendor"))
	s.inventory.PerformanceLevel = r.once(path.Join(r.device.Dir, "power_dpm_force_performance_level"))
	s.aer = r.aerOf(r.device.Dir, "")
	dir := r.device.Dir
	for _, port := range pci.Ports(dir) {
		dir = path.Dir(dir)
		s.portAER = append(s.portAER, r.aerOf(dir, port)...)
	}
}

// aerOf reads the counts of one end of a link.
func (r *Reader) aerOf(dir, port string) (all []AERCount) {
	for _, severity := range pci.AERSeverities {
		if n, ok := pci.AERTotal(r.once(path.Join(dir, "aer_dev_"+severity))); ok {
			all = append(all, AERCount{Port: port, Severity: severity, Errors: n})
		}
	}
	return all
}
