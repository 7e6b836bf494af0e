package exporter

import gm "concourse-ci-machine/internal/exporter/gpumetrics"

// fallBack gives the contract's values from the driver's table where their own
// files gave none. It returns the fan's speed, which has a sensor that comes
// later. settled says that the temperature is not to be replaced.
func (c *card) fallBack(values []gm.Value, settled bool) (fan float64) {
	first := func(fields ...gm.Field) (float64, bool) {
		for _, f := range fields {
			for _, v := range values {
				if v.Field == f && v.Index == 0 && v.Partition == 0 {
					return v.Value, true
				}
			}
		}
		return 0, false
	}
	v := &c.sample.vitals
	if !settled {
		for _, s := range []struct {
			sensor string
			field  gm.Field
		}{{"edge", gm.TemperatureEdge}, {"junction", gm.TemperatureHotspot}, {"gfx", gm.TemperatureGFX}} {
			if t, ok := first(s.field); ok {
				c.put(temperature, t)
				v.temperature(s.sensor, t)
				break
			}
		}
	}
	if !c.has(utilization) {
		if a, ok := first(gm.AverageGFXActivity); ok {
			c.put(utilization, percentOf(a))
			c.put(activity, a, label("engine", "gfx"))
			v.Activity = known(a)
		}
	}
	if !c.has(memoryUtilization) {
		if a, ok := first(gm.AverageUMCActivity); ok {
			c.put(memoryUtilization, percentOf(a))
			c.put(activity, a, label("engine", "memory"))
			v.Memory = known(a)
		}
	}
	if !c.has(power) {
		if w, ok := first(gm.CurrSocketPower, gm.AverageSocketPower); ok {
			c.put(power, w)
			v.power(w)
		}
	}
	fan, _ = first(gm.CurrentFanSpeed)
	return fan
}

// percentOf is exact where the table had whole percents or hundredths.
func percentOf(ratio float64) float64 {
	return float64(int64(ratio*10_000+.5)) / 100
}
