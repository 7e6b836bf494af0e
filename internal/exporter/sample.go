package exporter

import "path"

// Reading is one value in the unit of its metric.
type Reading struct {
	Metric metric
	Value  float64
}

// Sample is what one device's files said in one scrape.
type Sample struct {
	Identity Identity
	Readings []Reading
	Failures []Failure
	Alive    bool // it gave values, or there was a reason not to ask for any
}

// Plausible limits, wide of anything that hardware can be: they exist to keep
// a firmware's "not available" (0xffff, 0xffffffff) out of the series.
const (
	maxCelsius = 250
	maxWatts   = 10_000
	maxBytes   = 1 << 50
)

// readSample reads one device. Where live is false only its identity is read:
// the sensors belong to the whole GPU, and another partition reports them.
func readSample(f *files, d Device, live bool) Sample {
	s := Sample{Identity: readIdentity(f, d), Alive: true}
	if live && !asleep(f, d.Dir) {
		s.Readings = readLive(f, d.Dir)
		s.Alive = len(s.Readings) > 0
	}
	s.Failures = f.failures
	return s
}

// asleep reports whether runtime power management has suspended the device.
// Linux 6.1 resumes a GPU to answer nearly any other file of it
// (pm_runtime_get_sync in amdgpu_pm.c); this one is answered by the core.
func asleep(f *files, dir string) bool {
	status, _, _ := f.text(path.Join(dir, "power/runtime_status"))
	return status == "suspended" || status == "suspending"
}

// readLive reads the values that change. Each has its order of sources.
func readLive(f *files, dir string) []Reading {
	var out []Reading
	add := func(m metric, v float64, ok bool) {
		if ok {
			out = append(out, Reading{m, v})
		}
	}
	integer := func(m metric, file string, min, max int64) {
		n, ok, _ := f.number(path.Join(dir, file), min, max)
		add(m, float64(n), ok)
	}
	sensors := findHwmon(f, dir)
	t, ok := sensors.temperature(f)
	add(temperature, t, ok)
	integer(utilization, "gpu_busy_percent", 0, 100)
	integer(memoryUtilization, "mem_busy_percent", 0, 100)
	integer(memoryUsed, "mem_info_vram_used", 0, maxBytes)
	integer(memoryTotal, "mem_info_vram_total", 1, maxBytes)
	w, ok := sensors.power(f)
	add(power, w, ok)
	return out
}
