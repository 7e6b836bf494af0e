package exporter

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/exporter/health"
	"concourse-ci-machine/internal/exporter/sysfile"
)

// slowState is what is read on a timer only: what hardly changes, and the error
// counters, each of which the driver gets from the hardware.
type slowState struct {
	values []expo.Sample
	errors *health.Errors
	bad    *int
	crit   map[string]float64 // by sensor, degrees Celsius
	cap    optional           // W
	fatal  int64              // events in ras/event_state; -1: there is none
}

// readSlowOnce is for the first scrape, which must not be without.
func (c *card) readSlowOnce() {
	if c.slow == nil {
		c.readSlow()
	}
}

// poll is the timer's reading. It leaves a sleeping GPU alone, whose counters
// can't have changed.
func (c *card) poll() []Failure {
	if !c.current() {
		return nil // the next scrape opens it
	}
	c.sample = &Sample{}
	defer func() { c.sample = nil }()
	if strings.HasPrefix(c.status(), "suspend") || c.sensors.dir == "" && c.slow == nil {
		return nil
	}
	c.turn++        // what is put here is not in the next scrape's way
	c.files.Retry() // the driver may have made more by now
	c.readSlow()
	return c.sample.Failures
}

// readSlow reads all of it into a new slowState.
func (c *card) readSlow() {
	before, s := c.slow, &slowState{crit: map[string]float64{}, fatal: -1}
	shown := c.sample.Values
	c.sample.Values = nil
	c.readLimits(s)
	c.readClockRanges()
	c.readLinkLimits()
	c.readModes()
	c.readInventory()
	c.readRAS(s, before)
	for _, v := range c.sample.Values {
		s.values = append(s.values, v.Fix())
	}
	c.sample.Values = shown
	c.slow = s
}

// addSlow adds what the timer read last.
func (c *card) addSlow() {
	if c.slow != nil {
		c.sample.Values = append(c.sample.Values, c.slow.values...)
	}
}

// slowNumber reads a file that is not kept open, with a number that says
// something only where it is more than 0.
func (c *card) slowNumber(p string, max float64) (float64, bool) {
	text := c.once(p)
	if text == "" {
		return 0, false
	}
	v, ok := sysfile.Leading([]byte(text))
	return v, ok && v > 0 && v <= max
}

// readLimits reads the limits of temperatures, power and fan. A limit of -273
// degrees is one that there is none of.
func (c *card) readLimits(s *slowState) {
	for _, ch := range c.sensors.temps {
		if v, ok := c.slowNumber(ch.base+"_crit", maxCelsius*1000); ok {
			s.crit[ch.label] = v / 1000
			c.put(temperatureCrit, v/1000, ch.label1...)
		}
		if v, ok := c.slowNumber(ch.base+"_emergency", maxCelsius*1000); ok {
			c.put(temperatureEmergency, v/1000, ch.label1...)
		}
	}
	if c.sensors.dir == "" {
		return
	}
	if v, ok := c.slowNumber(path.Join(c.sensors.dir, "power1_cap"), maxWatts*1e6); ok {
		s.cap = known(v / 1e6)
		c.put(powerCap, v/1e6)
	}
	if v, ok := c.slowNumber(path.Join(c.sensors.dir, "power1_cap_max"), maxWatts*1e6); ok {
		c.put(powerCapMax, v/1e6)
	}
	if v, ok := c.slowNumber(path.Join(c.sensors.dir, "fan1_max"), maxRPM); ok {
		c.put(fanMax, v)
	}
}

// clockFiles are the clock tables, by the name of the domain.
var clockFiles = [...][2]string{{"gfx", "pp_dpm_sclk"}, {"mem", "pp_dpm_mclk"}, {"soc", "pp_dpm_socclk"},
	{"fabric", "pp_dpm_fclk"}, {"vclk", "pp_dpm_vclk"}, {"dclk", "pp_dpm_dclk"}}

func (c *card) readClockRanges() {
	for _, f := range clockFiles {
		if low, high, ok := clockRange(c.once(path.Join(c.device.Dir, f[1]))); ok {
			c.put(clockMin, low*1e6, label("clock", f[0]))
			c.put(clockMax, high*1e6, label("clock", f[0]))
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

func (c *card) readLinkLimits() {
	if v, ok := c.slowNumber(path.Join(c.device.Dir, "max_link_speed"), 1000); ok {
		c.put(pcieSpeedMax, v*1e9)
	}
	if v, ok := c.slowNumber(path.Join(c.device.Dir, "max_link_width"), 64); ok {
		c.put(pcieLanesMax, v)
	}
}

// readModes reads how the GPU is divided, where it can be.
func (c *card) readModes() {
	compute := c.once(path.Join(c.device.Dir, "current_compute_partition"))
	memory := c.once(path.Join(c.device.Dir, "current_memory_partition"))
	if compute != "" || memory != "" {
		c.put(partitionInfo, 1, label("compute", compute), label("memory", memory))
	}
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
