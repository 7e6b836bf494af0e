package exporter

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/exporter/sysfile"
)

// hwmon is the sensor directory that amdgpu registers for a GPU
// (drivers/gpu/drm/amd/pm/amdgpu_pm.c).
type hwmon struct {
	dir                  string // "" where there is none
	temps, rails, clocks []channel
	powers               [2]channel // of power1: its average, its present draw
	fan, pwm             *sysfile.File
}

// channel is one sensor. Channels are told apart by label: on GPUs made of
// several dies the first number is not the edge.
type channel struct {
	label  string
	label1 []expo.Label
	input  *sysfile.File
	slot   *slot
	now    optional // what a temperature was in this scrape
	base   string   // "/…/temp1": the directory and the beginning of the files' names
}

// Plausible limits, wide of anything that hardware can be: they exist to keep
// a firmware's "not available" (0xffff, 0xffffffff) out of the series.
const (
	maxCelsius    = 250
	maxWatts      = 10_000
	maxBytes      = 1 << 50
	maxHertz      = 20_000_000_000
	maxRPM        = 30_000
	maxMillivolts = 100_000 // boards of 48 V have vddboard at 52.7
)

// openHwmon finds the directory by its name file.
func (c *card) openHwmon() {
	c.sensors = hwmon{}
	entries, _ := c.root.ReadDir(path.Join(c.device.Dir, "hwmon"))
	for _, e := range entries {
		dir := path.Join(c.device.Dir, "hwmon", e.Name())
		if c.once(path.Join(dir, "name")) == "amdgpu" {
			c.sensors.dir = dir
			break
		}
	}
	h := &c.sensors
	if h.dir == "" {
		return
	}
	c.sensorDir.open(c.root.Path(h.dir))
	file := func(name string) *sysfile.File { return c.files.File(path.Join(h.dir, name)) }
	for i, kind := range []string{"average", "input"} {
		h.powers[i] = channel{input: file("power1_" + kind), label1: []expo.Label{label("kind", kind)}}
	}
	h.fan, h.pwm = file("fan1_input"), file("pwm1")
	names, _ := c.root.ReadDir(h.dir)
	for _, e := range names {
		kind, n, ok := labelFile(e.Name())
		if !ok {
			continue
		}
		name := c.once(path.Join(h.dir, e.Name()))
		ch := channel{label: name, base: path.Join(h.dir, kind+strconv.Itoa(n))}
		ch.input = c.files.File(ch.base + "_input")
		switch {
		case name == "":
		case kind == "temp":
			ch.label1 = []expo.Label{label("sensor", name)}
			h.temps = append(h.temps, ch)
		case kind == "in":
			ch.label1 = []expo.Label{label("rail", name)}
			h.rails = append(h.rails, ch)
		case kind == "freq":
			clock := map[string]string{"sclk": "gfx", "mclk": "mem"}[name]
			if clock != "" {
				ch.label1 = []expo.Label{label("clock", clock), label("instance", "0")}
				h.clocks = append(h.clocks, ch)
			}
		}
	}
}

// once reads a text that does not change while the driver is loaded.
func (c *card) once(p string) string {
	base := path.Base(p)
	c.at.Store(&base)
	b, err := sysfile.ReadOnce(c.root.Path(p))
	if err != nil {
		if !sysfile.Absent(err) {
			c.fail(base, sysfile.ErrnoName(err))
		}
		return ""
	}
	return sysfile.Clean(b)
}

// labelFile gets "temp" and 2 from "temp2_label".
func labelFile(name string) (kind string, n int, ok bool) {
	name, isLabel := strings.CutSuffix(name, "_label")
	digits := strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz")
	u, err := strconv.ParseUint(digits, 10, 8)
	if !isLabel || err != nil || strings.HasPrefix(digits, "0") && digits != "0" {
		return "", 0, false
	}
	return name[:len(name)-len(digits)], int(u), len(digits) < len(name)
}

// dieSensors are those that give the GPU's temperature, the best first.
var dieSensors = [2]string{"edge", "junction"}

// readTemperatures gives each sensor, and the GPU's temperature: the edge's, or
// the junction's where there is no edge sensor (MI300). An edge sensor that
// fails is not replaced: the junction is warmer by tens of degrees, and the
// series would jump. A powered die is never at exactly 0: that is a sensor that
// the firmware does not fill. settled is false where another source may be asked.
func (c *card) readTemperatures() (settled bool) {
	var values [2]float64 // of the sensors in dieSensors
	var bad [2]bool
	for i := range c.sensors.temps {
		ch := &c.sensors.temps[i]
		ch.now = optional{}
		milli, ok, failed := c.number(ch.input, -maxCelsius*1000, maxCelsius*1000)
		place := slices.Index(dieSensors[:], ch.label)
		if failed && place >= 0 {
			bad[place] = true
		}
		if ok {
			c.hangs.answered++
		}
		if ok && milli != 0 {
			t := float64(milli) / 1000
			ch.now = known(t)
			c.putAt(&ch.slot, temperatureCelsius, t, ch.label1)
			if place >= 0 {
				values[place] = t
			}
		}
	}
	for i, sensor := range dieSensors {
		if bad[i] {
			return true
		}
		if t := values[i]; t != 0 {
			c.put(temperature, t)
			c.sample.vitals.temperature(sensor, t)
			return true
		}
	}
	return false
}

// readPower is in watts: the average where the GPU has it, else the present
// draw. 0 is what virtual functions and secondary dies answer for want of a
// sensor.
func (c *card) readPower() {
	if c.sensors.dir == "" {
		return
	}
	for i := range c.sensors.powers {
		source := &c.sensors.powers[i]
		micro, ok, _ := c.number(source.input, 0, maxWatts*1_000_000)
		if ok {
			c.hangs.answered++
		}
		if ok && micro != 0 {
			w := float64(micro) / 1e6
			c.put(power, w)
			c.putAt(&source.slot, powerWatts, w, source.label1)
			c.sample.vitals.power(w)
		}
	}
}

// readRest reads the sensors that no other source stands behind. A rail at 0 V is one
// that the driver fills in for a board that lacks it.
func (c *card) readRest() {
	h := &c.sensors
	for i := range h.rails {
		ch := &h.rails[i]
		if v, ok, _ := c.number(ch.input, 0, maxMillivolts); ok && v > 0 {
			c.putAt(&ch.slot, voltage, float64(v)/1000, ch.label1)
		}
	}
	for i := range h.clocks {
		ch := &h.clocks[i]
		if ch.slot == nil {
			ch.slot = c.slot(keyOf(clockHertz, ch.label1), ch.label1)
		}
		if ch.slot.turn == c.turn {
			continue // the table had it
		}
		if v, ok, _ := c.number(ch.input, 0, maxHertz); ok {
			c.set(ch.slot, float64(v))
		}
	}
	if h.dir == "" {
		return
	}
	if v, ok, _ := c.number(h.fan, 0, maxRPM); ok {
		c.put(fanRPM, float64(v))
	}
	if v, ok, _ := c.number(h.pwm, 0, 255); ok {
		c.put(fanRatio, float64(v)/255)
	}
}
