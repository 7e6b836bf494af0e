package exporter

import (
	"path"
	"strconv"
	"strings"
)

// hwmon is the sensor directory that amdgpu registers for a GPU
// (drivers/gpu/drm/amd/pm/amdgpu_pm.c).
type hwmon struct {
	dir   string         // "" where there is none
	temps map[string]int // label of a temperature channel -> its number
}

// findHwmon finds the directory by its name file. Channels are told apart by
// label: on GPUs made of several dies the first number is not the edge.
func findHwmon(f *files, device string) hwmon {
	h := hwmon{temps: map[string]int{}}
	dirs, _ := f.root.ReadDir(path.Join(device, "hwmon"))
	for _, e := range dirs {
		dir := path.Join(device, "hwmon", e.Name())
		if name, _, _ := f.text(path.Join(dir, "name")); name == "amdgpu" {
			h.dir = dir
			break
		}
	}
	if h.dir == "" {
		return h
	}
	entries, _ := f.root.ReadDir(h.dir)
	for _, e := range entries {
		n, ok := tempChannel(e.Name())
		if !ok {
			continue
		}
		if label, ok, _ := f.text(path.Join(h.dir, e.Name())); ok {
			h.temps[label] = n
		}
	}
	return h
}

// tempChannel gets 2 from "temp2_label".
func tempChannel(name string) (int, bool) {
	digits, isTemp := strings.CutPrefix(name, "temp")
	digits, isLabel := strings.CutSuffix(digits, "_label")
	if !isTemp || !isLabel {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 8)
	return int(n), err == nil
}

// temperature is the edge's in degrees Celsius, or the junction's where there
// is no edge sensor (MI300). An edge sensor that fails is not replaced: the
// junction is warmer by tens of degrees, and the series would jump. A powered
// die is never at exactly 0: that is a sensor that the firmware does not fill.
func (h hwmon) temperature(f *files) (float64, bool) {
	for _, label := range []string{"edge", "junction"} {
		n, known := h.temps[label]
		if !known {
			continue
		}
		p := path.Join(h.dir, "temp"+strconv.Itoa(n)+"_input") // millidegrees
		milli, ok, failed := f.number(p, -maxCelsius*1000, maxCelsius*1000)
		if failed {
			return 0, false
		}
		if ok && milli != 0 {
			return float64(milli) / 1000, true
		}
	}
	return 0, false
}

// power is in watts: the average where the GPU has it, else the present draw.
// 0 is what virtual functions and secondary dies answer for want of a sensor.
func (h hwmon) power(f *files) (float64, bool) {
	if h.dir == "" {
		return 0, false
	}
	for _, file := range []string{"power1_average", "power1_input"} {
		micro, ok, _ := f.number(path.Join(h.dir, file), 0, maxWatts*1_000_000)
		if ok && micro != 0 {
			return float64(micro) / 1e6, true
		}
	}
	return 0, false
}
