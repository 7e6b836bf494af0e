package exporter

// nearest is the sensor of the GPU that is nearest its own limit: junction and memory
// run hotter than the edge by design, and may go higher. ok is false where no sensor
// has a limit, and before the limits were read.
func (c *card) nearest() (r reading, ok bool) {
	for _, ch := range c.sensors.temps {
		limit := c.crit(ch.label)
		switch {
		case !ch.now.Known || limit <= 0:
		case !ok || ch.now.Value/limit > r.Value/r.Limit:
			r, ok = reading{Sensor: ch.label, Value: ch.now.Value, Limit: limit}, true
		}
	}
	return r, ok
}

// nearLimit is the share of a sensor's limit from which on the firmware's word for it
// counts that it slows the GPU down: RDNA 3 and 4 set the bit of the hotspot on idle,
// cool cards (drm/amd issue 3251).
const nearLimit = .9

// near reports whether the sensor is near its limit. ok is false where it or its limit
// is not known.
func (c *card) near(sensor string) (near, ok bool) {
	for _, ch := range c.sensors.temps {
		if limit := c.crit(sensor); ch.label == sensor && ch.now.Known && limit > 0 {
			return ch.now.Value >= nearLimit*limit, true
		}
	}
	return false, false
}

// crit is the sensor's limit in degrees Celsius, 0 where there is none.
func (c *card) crit(sensor string) float64 {
	if c.slow == nil {
		return 0
	}
	return c.slow.crit[sensor]
}
