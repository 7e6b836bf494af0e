package amdgpu

import (
	"slices"
	"time"

	gm "github.com/fourdollars/concourse-ci-machine/amdgpu/gpumetrics"
)

// window is the time over which the growth of a residency counter is measured. Each reading
// looks back one to two windows, so that several Prometheus servers see the same growth.
const window = 15 * time.Second

// throttleState holds the previous residency counters.
type throttleState struct {
	older   *residencies
	base    *residencies
	lastRev gm.Revision
	status  *uint64      // indep_throttle_status of this reading, see judgeThrottle
	now     *residencies // counters of this reading
}

// residencies holds one reading of the counters: ticks by field.
type residencies struct {
	at     time.Time
	total  gm.Value // accumulation_counter; Bits is 0 if the table lacks it
	counts []counter
}

// counter holds the time under one thermal limit.
type counter struct {
	gm.Value
	cool bool // the sensor of the limit is known, and not near its critical temperature
}

// throttleBit describes a bit of indep_throttle_status (SMU_THROTTLER_* in
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
	{42, "temp_liquid0"}, {43, "temp_liquid1"}, {44, "vrhot0"}, {45, "vrhot1"}, {46, "prochot_cpu"},
	{47, "prochot_gfx"},
	{56, "ppm"}, {57, "fit"},
}

// thermal reports whether a bit means heat. Every busy GPU reaches limits of power and
// current, which therefore do not show heat.
func thermal(bit int) bool { return bit >= 32 && bit < 48 }

// bitSensors maps thermal bits to their sensors in hwmon.
var bitSensors = map[int]string{32: "junction", 34: "mem", 35: "edge", 36: "junction"}

// residencySensors maps thermal residencies to their sensors in hwmon. The heat of an APU's
// processor (throttle_residency_thm_core) does not limit the GPU and is left out.
var residencySensors = map[gm.Field]string{
	gm.SocketThermalResidencyAcc: "junction", gm.HBMThermalResidencyAcc: "mem",
	gm.ProchotResidencyAcc: "", gm.VRThermalResidencyAcc: "",
	gm.ThrottleResidencyProchot: "", gm.ThrottleResidencyThermalGFX: "", gm.ThrottleResidencyThermalSoC: "",
}

// readThrottle reads the limits that slow the GPU down, from the best field of the table.
func (r *Reader) readThrottle(values []gm.Value, revision gm.Revision) {
	if r.throttle.lastRev != revision {
		r.throttle = throttleState{lastRev: revision}
	}
	now := &residencies{at: r.now()}
	var raw *gm.Value
	dropStuck(&r.s.Throttling)
	for i, v := range values {
		switch v.Field {
		case gm.IndepThrottleStatus:
			r.throttle.status = &v.Raw
			return
		case gm.ThrottleStatus:
			raw = &values[i]
		case gm.AccumulationCounter:
			now.total = v
		default:
			if _, heat := residencySensors[v.Field]; heat && !stuck(v.Value, r.s.Throttling.Ticks) {
				now.counts = append(now.counts, counter{Value: v})
			}
		}
	}
	if len(now.counts) > 0 {
		r.throttle.now = now
		return
	}
	if raw != nil {
		// Each GPU has its own codes, which mix heat and power, so this must not be
		// reported as heat.
		r.s.Throttling.Active = []Throttle{{Reason: Unspecified, Active: raw.Raw != 0}}
	}
}

// stuck reports whether a residency equals the count of all ticks: firmware of MI300X with
// AMD's driver 6.10.5 adds each tick to some residencies, whatever the GPU does.
func stuck(residency float64, ticks Number) bool {
	return ticks.Known && ticks.Value > 0 && residency == ticks.Value
}

// dropStuck removes meaningless residencies.
func dropStuck(t *Throttling) {
	t.Residency = slices.DeleteFunc(t.Residency, func(r Residency) bool { return stuck(r.Ticks, t.Ticks) })
}

// judgeThrottle runs after sensors and their limits were read. A thermal bit is valid if
// its sensor is near the limit. Without a known sensor the bit is unspecified, and not a
// thermal limit. A residency without a sensor is valid, because it is the firmware's own
// measure.
func (r *Reader) judgeThrottle() {
	if now := r.throttle.now; now != nil {
		r.throttle.now = nil // the next reading may lack the table
		for i := range now.counts {
			near, ok := r.s.near(residencySensors[now.counts[i].Field])
			now.counts[i].cool = ok && !near
		}
		r.grow(now)
	}
	if r.throttle.status == nil {
		return
	}
	t := &r.s.Throttling
	t.Active = make([]Throttle, 0, len(throttleBits)+1)
	n, judged, unspecified := 0, false, false
	for _, b := range throttleBits {
		set := *r.throttle.status>>b.bit&1 == 1
		if thermal(b.bit) {
			near, ok := r.s.near(bitSensors[b.bit])
			if !ok {
				unspecified = unspecified || set
				continue
			}
			set, judged = set && near, true
			if set {
				n++
			}
		}
		t.Active = append(t.Active, Throttle{Reason: b.reason, Active: set})
	}
	t.Active = append(t.Active, Throttle{Reason: Unspecified, Active: unspecified})
	if judged {
		t.Limits, t.ThermalShare = Known(float64(n)), Known(0)
		if n > 0 {
			t.ThermalShare = Known(BitShare)
		}
	}
	r.throttle.status = nil
}

// grow compares with the reading of one to two windows ago.
func (r *Reader) grow(now *residencies) {
	t := &r.throttle
	switch {
	case t.base == nil:
		t.base = now
		return
	case now.at.Sub(t.base.at) >= window:
		t.older, t.base = t.base, now
	}
	since := t.older
	if since == nil {
		since = t.base
	}
	g, ok := since.growth(now)
	if !ok { // the firmware restarted
		t.older, t.base = nil, now
		return
	}
	r.s.Throttling.Limits = Known(float64(g.counters))
	if g.ticks > 0 {
		r.s.Throttling.ThermalShare = Known(min(1, g.most/g.ticks))
	}
}

// growth holds the number of counters that grew, the largest growth, and the elapsed ticks.
type growth struct {
	counters    int
	most, ticks float64
}

// growth returns the growth since b. It skips a counter with a cool sensor at both times. ok
// is false if the counters restarted since b.
func (b *residencies) growth(now *residencies) (g growth, ok bool) {
	if len(b.counts) != len(now.counts) || b.total.Bits != now.total.Bits {
		return growth{}, false
	}
	if b.total.Bits > 0 {
		g.ticks = difference(b.total, now.total)
	}
	for i, v := range now.counts {
		if b.counts[i].Field != v.Field || b.total.Bits == 0 && v.Raw < b.counts[i].Raw {
			return growth{}, false
		}
		d := difference(b.counts[i].Value, v.Value)
		if b.total.Bits > 0 && d > g.ticks {
			return growth{}, false // more than the elapsed time: a restart, not a wrap
		}
		if b.counts[i].cool && v.cool {
			continue
		}
		if d > 0 {
			g.counters++
		}
		g.most = max(g.most, d)
	}
	return g, true
}

// difference returns the difference of two values, modulo the width of the counter.
func difference(from, to gm.Value) float64 {
	d := to.Raw - from.Raw
	if to.Bits < 64 {
		d &= 1<<to.Bits - 1
	}
	return float64(d)
}
