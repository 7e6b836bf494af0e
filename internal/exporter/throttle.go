package exporter

import (
	"time"

	"concourse-ci-machine/internal/exporter/expo"
	gm "concourse-ci-machine/internal/exporter/gpumetrics"
)

// window is how long a residency counter is watched before its growth is told.
// Each scrape looks back one to two windows, so that several Prometheus
// servers do not take each other's growth away.
const window = 15 * time.Second

// bitNow is the share of time that a bit counts for in the health: it says
// that a limit is met now and not for how long.
const bitNow = .2

// throttleState is what the residency counters were.
type throttleState struct {
	active  map[int]*slot // of the bits
	older   *residency
	base    *residency
	lastRev gm.Revision
	share   *float64 // of the time, under a thermal limit
	status  *uint64  // indep_throttle_status of this scrape, see showBits
}

// residency is a reading of the counters: ticks by field.
type residency struct {
	at     time.Time
	total  gm.Value // accumulation_counter; Bits 0 where the table has none
	counts []gm.Value
}

// throttleBit is a bit of indep_throttle_status (SMU_THROTTLER_* in
// drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h).
type throttleBit struct {
	bit    int
	reason string
}

var throttleBits = [...]throttleBit{
	{0, "ppt0"}, {1, "ppt1"}, {2, "ppt2"}, {3, "ppt3"}, {4, "spl"}, {5, "fppt"}, {6, "sppt"}, {7, "sppt_apu"},
	{16, "tdc_gfx"}, {17, "tdc_soc"}, {18, "tdc_mem"}, {19, "tdc_vdd"}, {20, "tdc_cvip"},
	{21, "edc_cpu"}, {22, "edc_gfx"}, {23, "apcc"},
	{32, "temp_gpu"}, {33, "temp_core"}, {34, "temp_mem"}, {35, "temp_edge"}, {36, "temp_hotspot"}, {37, "temp_soc"},
	{38, "temp_vr_gfx"}, {39, "temp_vr_soc"}, {40, "temp_vr_mem0"}, {41, "temp_vr_mem1"},
	{42, "temp_liquid0"}, {43, "temp_liquid1"}, {44, "vrhot0"}, {45, "vrhot1"}, {46, "prochot_cpu"}, {47, "prochot_gfx"},
	{56, "ppm"}, {57, "fit"},
}

// thermal reports whether a bit is about heat. Power and current limits are met by
// every busy GPU and say nothing about it.
func thermal(bit int) bool { return bit >= 32 && bit < 48 }

// bitSensors are the sensors in hwmon that thermal bits speak of.
var bitSensors = map[int]string{32: "junction", 34: "mem", 35: "edge", 36: "junction"}

// readThrottle tells what slows the GPU down, from the best of the fields that
// the table has.
func (c *card) readThrottle(values []gm.Value, revision gm.Revision) {
	if c.throttle.lastRev != revision {
		c.throttle = throttleState{lastRev: revision, active: map[int]*slot{}}
	}
	now := residency{at: c.now()}
	var raw *gm.Value
	for i, v := range values {
		switch v.Field {
		case gm.IndepThrottleStatus:
			c.throttle.status = &v.Raw
			return
		case gm.ThrottleStatus:
			raw = &values[i]
		case gm.AccumulationCounter:
			now.total = v
		case gm.ProchotResidencyAcc, gm.SocketThermalResidencyAcc, gm.VRThermalResidencyAcc, gm.HBMThermalResidencyAcc,
			gm.ThrottleResidencyProchot, gm.ThrottleResidencyThermalCore, gm.ThrottleResidencyThermalGFX, gm.ThrottleResidencyThermalSoC:
			now.counts = append(now.counts, v)
		}
	}
	if len(now.counts) > 0 {
		c.grow(now)
		return
	}
	if raw != nil {
		// Each GPU has its own codes: there is no telling heat from power, so
		// this must not feed the thermal alert.
		c.put(throttleActive, oneIf(raw.Raw != 0), label("reason", "unspecified"))
	}
}

// showBits comes when sensors and their limits were read. A thermal bit counts where
// its sensor is near the limit. Where no such sensor is known it is shown as
// unspecified, and health leaves it out.
func (c *card) showBits() {
	if c.throttle.status == nil {
		return
	}
	n, judged, unspecified := 0, false, false
	for _, b := range throttleBits {
		set := *c.throttle.status>>b.bit&1 == 1
		if thermal(b.bit) {
			near, ok := c.near(bitSensors[b.bit])
			if !ok {
				unspecified = unspecified || set
				continue
			}
			set, judged = set && near, true
			if set {
				n++
			}
		}
		s := c.throttle.active[b.bit]
		if s == nil {
			s = c.slot(slotKey{metric: throttleActive, a: b.reason}, []expo.Label{label("reason", b.reason)})
			c.throttle.active[b.bit] = s
		}
		c.set(s, oneIf(set))
	}
	c.put(throttleActive, oneIf(unspecified), label("reason", "unspecified"))
	if judged {
		c.put(throttleStatus, float64(n))
		share := bitNow * oneIf(n > 0)
		c.throttle.share = &share
	}
}

// grow compares with the reading of one to two windows ago.
func (c *card) grow(now residency) {
	t := &c.throttle
	switch {
	case t.base == nil:
		t.base = &now
		return
	case now.at.Sub(t.base.at) >= window:
		t.older, t.base = t.base, &now
	}
	since := t.older
	if since == nil {
		since = t.base
	}
	n, most, ticks, ok := since.until(now)
	if !ok { // the firmware started again
		t.older, t.base = nil, &now
		return
	}
	c.put(throttleStatus, float64(n))
	if ticks > 0 {
		share := min(1, most/ticks)
		t.share = &share
	}
}

// until is how many counters grew, by how much the one that grew most, and how
// many ticks there were. ok is false where they can't have come from r.
func (r *residency) until(now residency) (n int, most, ticks float64, ok bool) {
	if len(r.counts) != len(now.counts) || r.total.Bits != now.total.Bits {
		return 0, 0, 0, false
	}
	if r.total.Bits > 0 {
		ticks = growth(r.total, now.total)
	}
	for i, v := range now.counts {
		if r.counts[i].Field != v.Field || r.total.Bits == 0 && v.Raw < r.counts[i].Raw {
			return 0, 0, 0, false
		}
		g := growth(r.counts[i], v)
		if r.total.Bits > 0 && g > ticks {
			return 0, 0, 0, false // more than the time there was: not a wrap but a new start
		}
		if g > 0 {
			n++
		}
		most = max(most, g)
	}
	return n, most, ticks, true
}

// growth minds the width at which the counter starts again from 0.
func growth(from, to gm.Value) float64 {
	d := to.Raw - from.Raw
	if to.Bits < 64 {
		d &= 1<<to.Bits - 1
	}
	return float64(d)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
