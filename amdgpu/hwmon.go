package amdgpu

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// hwmon holds the sensor directory that amdgpu registers for a GPU
// (drivers/gpu/drm/amd/pm/amdgpu_pm.c).
type hwmon struct {
	dir                  string // "" without one
	temps, rails, clocks []channel
	average, draw        *sysfile.File // of power1
	fan, pwm             *sysfile.File
}

// channel describes one sensor. Channels are identified by label, because the first number
// is not the edge on GPUs of several dies.
type channel struct {
	label string
	input *sysfile.File
	base  string // "/…/temp1": the directory and the beginning of the files' names
}

// Plausible limits, far beyond any hardware. They keep a firmware's "not available"
// (0xffff, 0xffffffff) out of the series.
const (
	maxCelsius    = 250
	maxWatts      = 10_000
	maxBytes      = 1 << 50
	maxHertz      = 20_000_000_000
	maxRPM        = 30_000
	maxMillivolts = 100_000 // boards with 48 V have vddboard at 52.7
)

// openHwmon finds the directory by its name file.
func (r *Reader) openHwmon() {
	r.sensors = hwmon{}
	entries, _ := r.root.ReadDir(path.Join(r.device.Dir, "hwmon"))
	for _, e := range entries {
		dir := path.Join(r.device.Dir, "hwmon", e.Name())
		if r.once(path.Join(dir, "name")) == "amdgpu" {
			r.sensors.dir = dir
			break
		}
	}
	h := &r.sensors
	if h.dir == "" {
		return
	}
	r.sensorDir.open(r.root.Path(h.dir))
	if r.lastSensorDir != "" && r.lastSensorDir != h.dir { // a driver that is bound again registers a new directory
		r.answers.reset()
	}
	r.lastSensorDir = h.dir
	file := func(name string) *sysfile.File { return r.files.File(path.Join(h.dir, name)) }
	h.average, h.draw = file("power1_average"), file("power1_input")
	h.fan, h.pwm = file("fan1_input"), file("pwm1")
	names, _ := r.root.ReadDir(h.dir)
	for _, e := range names {
		kind, n, ok := labelFile(e.Name())
		if !ok {
			continue
		}
		name := r.once(path.Join(h.dir, e.Name()))
		ch := channel{label: name, base: path.Join(h.dir, kind+strconv.Itoa(n))}
		ch.input = r.files.File(ch.base + "_input")
		switch {
		case name == "":
		case kind == "temp":
			h.temps = append(h.temps, ch)
		case kind == "in":
			h.rails = append(h.rails, ch)
		case kind == "freq":
			if ch.label = map[string]string{"sclk": "gfx", "mclk": "mem"}[name]; ch.label != "" {
				h.clocks = append(h.clocks, ch)
			}
		}
	}
}

// once reads a text that does not change while the driver is loaded.
func (r *Reader) once(p string) string {
	base := path.Base(p)
	r.at.Store(&base)
	b, err := sysfile.ReadOnce(r.root.Path(p))
	if err != nil {
		if !sysfile.Absent(err) {
			r.fail(base, sysfile.ErrnoName(err))
		}
		return ""
	}
	return sysfile.Clean(b)
}

// labelFile splits "temp2_label" into "temp" and 2.
func labelFile(name string) (kind string, n int, ok bool) {
	name, isLabel := strings.CutSuffix(name, "_label")
	digits := strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz")
	u, err := strconv.ParseUint(digits, 10, 8)
	if !isLabel || err != nil || strings.HasPrefix(digits, "0") && digits != "0" {
		return "", 0, false
	}
	return name[:len(name)-len(digits)], int(u), len(digits) < len(name)
}

// dieSensors lists the sensors of the GPU's temperature, the best first.
var dieSensors = [2]string{"edge", "junction"}

// readTemperatures reads each sensor, and the GPU's temperature: of the edge, or of the
// junction if the GPU has no edge sensor (MI300). A failing edge sensor is not replaced,
// because the junction is warmer by tens of degrees and the series would jump. Exactly 0 is
// ignored: a powered die is warmer, so the firmware does not fill the sensor. settled is
// false if another source may be used.
func (r *Reader) readTemperatures() (settled bool) {
	var values [2]Number // of the sensors in dieSensors
	var bad [2]bool
	for i := range r.sensors.temps {
		ch := &r.sensors.temps[i]
		milli, ok, failed := r.number(ch.input, -maxCelsius*1000, maxCelsius*1000)
		place := slices.Index(dieSensors[:], ch.label)
		if failed && place >= 0 {
			bad[place] = true
		}
		if ok {
			r.answered = true
		}
		if ok && milli != 0 {
			now := Known(float64(milli) / 1000)
			r.s.sensor(ch.label).Now.setDefault(now.Value)
			if place >= 0 {
				values[place] = now
			}
		}
	}
	for i, sensor := range dieSensors {
		if bad[i] {
			return true
		}
		if values[i].Known {
			r.s.Temperature = Temperature{Sensor: sensor, Now: values[i]}
			return true
		}
	}
	return false
}

// readPower reads watts: the average if the GPU has it, otherwise the present draw. Virtual
// functions and secondary dies without a sensor return 0, and some firmware returns 32
// ones.
func (r *Reader) readPower() {
	if r.sensors.dir == "" {
		return
	}
	p := &r.s.Power
	for _, source := range []struct {
		file *sysfile.File
		to   *Number
	}{{r.sensors.average, &p.Average}, {r.sensors.draw, &p.Input}} {
		micro, ok, _ := r.number(source.file, 0, maxWatts*1_000_000)
		if ok {
			r.answered = true
		}
		if ok && micro != 0 && micro != math.MaxUint32 {
			*source.to = Known(float64(micro) / 1e6)
			p.Now.setDefault(source.to.Value)
		}
	}
}

// readRest reads the sensors without another source. The driver returns 0 V for a rail that
// the board lacks.
func (r *Reader) readRest() {
	h, s := &r.sensors, &r.s
	for i := range h.rails {
		if v, ok, _ := r.number(h.rails[i].input, 0, maxMillivolts); ok && v > 0 {
			s.addRail(h.rails[i].label, float64(v)/1000)
		}
	}
	for i := range h.clocks {
		domain := h.clocks[i].label
		if slices.ContainsFunc(s.Clocks, func(c Clock) bool { return c.Domain == domain && c.Instance == 0 }) {
			continue // the table had it
		}
		if v, ok, _ := r.number(h.clocks[i].input, 0, maxHertz); ok {
			s.addClock(domain, 0, float64(v))
		}
	}
	if h.dir != "" {
		r.into(&s.Fan.RPM, h.fan, maxRPM, 1)
		r.into(&s.Fan.Drive, h.pwm, 255, 255)
	}
}
