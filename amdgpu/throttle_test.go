package amdgpu

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	gm "github.com/fourdollars/concourse-ci-machine/amdgpu/gpumetrics"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// bitsTable is a gpu_metrics v1_3 with an indep_throttle_status.
func bitsTable(bits uint64) string {
	b := make([]byte, 120)
	binary.LittleEndian.PutUint16(b, 120)
	b[2], b[3] = 1, 3
	binary.LittleEndian.PutUint64(b[112:], bits)
	return string(b)
}

func TestGrowingThermalResidencyIsThrottling(t *testing.T) {
	root := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n"})
	write := func(ticks, prochot, ppt, socket uint64) {
		hosttest.Put(t, root, dev+"/gpu_metrics", exportertest.Table(exportertest.Attribute{ID: 9, Values: []uint64{ticks}},
			exportertest.Attribute{ID: 10, Values: []uint64{prochot}}, exportertest.Attribute{ID: 11, Values: []uint64{ppt}},
			exportertest.Attribute{ID: 12, Values: []uint64{socket}}))
	}
	r, now := readerOf(t, root)
	write(1000, 0, 0, 0)
	require.Equal(t, Number{}, r.Read().Throttling.Limits, "one reading tells no growth")

	*now = now.Add(window)
	write(2000, 0, 900, 0)
	got := r.Read().Throttling
	require.Equal(t, Known(0), got.Limits, "power is not heat")
	require.Equal(t, []Residency{{Reason: "prochot", Ticks: 0}, {Reason: "ppt", Ticks: 900}, {Reason: "socket_thermal", Ticks: 0}}, got.Residency)
	require.Equal(t, Known(2000), got.Ticks)

	*now = now.Add(window)
	write(3000, 10, 900, 250)
	got = r.Read().Throttling
	require.Equal(t, Known(2), got.Limits)
	require.InDelta(t, .25, got.ThermalShare.Value, 1e-9)
	require.Equal(t, Known(2), r.Read().Throttling.Limits, "a second server sees the same growth")

	*now = now.Add(window)
	write(4000, 10, 900, 250)
	r.Read()
	*now = now.Add(window)
	write(5000, 10, 900, 250)
	require.Equal(t, Known(0), r.Read().Throttling.Limits)

	*now = now.Add(window)
	write(50, 9, 0, 9) // the firmware began again
	got = r.Read().Throttling
	require.Equal(t, Number{}, got.Limits)
	require.Equal(t, Number{}, got.ThermalShare)
}

func TestCountersOf32BitsWrapAround(t *testing.T) {
	v := func(f gm.Field, raw uint64) gm.Value { return gm.Value{Field: f, Bits: 32, Raw: raw} }
	of := func(f gm.Field, raw uint64) []counter { return []counter{{Value: v(f, raw)}} }
	before := residencies{total: v(gm.AccumulationCounter, 0xffffff00), counts: of(gm.VRThermalResidencyAcc, 0xfffffff0)}
	g, ok := before.growth(&residencies{total: v(gm.AccumulationCounter, 0x100), counts: of(gm.VRThermalResidencyAcc, 0x10)})
	require.True(t, ok)
	require.Equal(t, growth{counters: 1, most: 32, ticks: 512}, g)
	_, ok = before.growth(&residencies{total: v(gm.AccumulationCounter, 0xffffff10), counts: of(gm.VRThermalResidencyAcc, 3)})
	require.False(t, ok, "more than there was time for")
	apu := residencies{counts: of(gm.ThrottleResidencyThermalGFX, 7)}
	_, ok = apu.growth(&residencies{counts: of(gm.ThrottleResidencyThermalGFX, 6)})
	require.False(t, ok)
}

// The firmware of RDNA 3 and 4 sets the hotspot's bit on idle cards: a thermal bit is valid
// if its sensor is near its limit.
func TestThermalBitIsValidIfItsSensorIsNearItsLimit(t *testing.T) {
	const hotspot, mem, vr, prochot = 1 << 36, 1 << 34, 1 << 38, 1 << 47
	for name, tt := range map[string]struct {
		bits        uint64
		junction    string // millidegrees, of 100,000; "" for no sensor
		limits      Number
		active      bool // the hotspot's
		unspecified bool
	}{
		"none":                          {0, "54000", Known(0), false, false},
		"power and current limits":      {1<<1 | 1<<16 | 1<<57, "54000", Known(0), false, false},
		"hotspot on a cool card":        {hotspot, "54000", Known(0), false, false},
		"hotspot near the limit":        {hotspot, "90000", Known(1), true, false},
		"hotspot without a sensor":      {hotspot, "", Number{}, false, true},
		"memory without a sensor":       {mem, "95000", Known(0), false, true},
		"nobody knows these sensors":    {vr | prochot, "95000", Known(0), false, true},
		"hotspot and one not known, on": {hotspot | vr, "99000", Known(1), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"gpu_busy_percent": "5\n", "hwmon/hwmon0/name": "amdgpu\n", "gpu_metrics": bitsTable(tt.bits)}
			if tt.junction != "" {
				files["hwmon/hwmon0/temp2_label"], files["hwmon/hwmon0/temp2_crit"] = "junction\n", "100000\n"
				files["hwmon/hwmon0/temp2_input"] = tt.junction + "\n"
			}
			s := first(t, files)
			got := s.Throttling
			require.Equal(t, tt.limits, got.Limits)
			share := Number{} // health leaves it out
			if tt.limits.Known {
				share = Known(BitShare * tt.limits.Value)
			}
			require.Equal(t, share, got.ThermalShare)
			require.Equal(t, tt.active, activeOf(s)["temp_hotspot"])
			require.Equal(t, tt.unspecified, activeOf(s)[Unspecified])
			require.Equal(t, tt.bits>>1&1 == 1, activeOf(s)["ppt1"])
			_, told := activeOf(s)["temp_vr_gfx"]
			require.False(t, told, "no sensor is known that it is about")
		})
	}
}

func TestRawThrottleStatusDoesNotFeedTheThermalAlert(t *testing.T) {
	b := make([]byte, 80)
	b[0], b[2], b[68] = 80, 1, 4
	s := first(t, map[string]string{"gpu_metrics": string(b)})
	require.Equal(t, Number{}, s.Throttling.Limits)
	require.Equal(t, Number{}, s.Throttling.ThermalShare)
	require.Equal(t, []Throttle{{Reason: Unspecified, Active: true}}, s.Throttling.Active)
}

func TestBitsOfAMissingTableAreDropped(t *testing.T) {
	files := exportertest.Sensors("junction", 99, 100)
	files["gpu_metrics"] = bitsTable(1 << 36)
	root := exportertest.Put(t, files)
	r, _ := readerOf(t, root)
	require.Equal(t, Known(1), r.Read().Throttling.Limits)
	hosttest.Put(t, root, dev+"/gpu_metrics", "")
	got := r.Read().Throttling
	require.Equal(t, Number{}, got.Limits)
	require.Equal(t, Number{}, got.ThermalShare)
	require.Empty(t, got.Active)
}

// residencyTable returns a gpu_metrics v1_6 with its counters, in the order of the kernel:
// accumulation, prochot, ppt, socket, vr and hbm.
func residencyTable(counters ...uint32) string {
	b := make([]byte, 1664)
	binary.LittleEndian.PutUint16(b, 1664)
	b[2], b[3] = 1, 6
	for i, n := range counters {
		binary.LittleEndian.PutUint32(b[32+4*i:], n)
	}
	return string(b)
}

// An idle MI300X with AMD's driver 6.10.5 had 10657785 ticks and as many of ppt, socket
// and hbm. They advance together.
func TestResidencyOfAllTicksIsNotThrottling(t *testing.T) {
	for name, sensors := range map[string]map[string]string{
		"with limits":               exportertest.Sensors("junction", 42, 100, "mem", 39, 105),
		"a guest, which has none":   exportertest.Sensors("junction", 42, 0, "mem", 39, 0),
		"even if it is near limits": exportertest.Sensors("junction", 95, 100, "mem", 100, 105),
	} {
		t.Run(name, func(t *testing.T) {
			root := exportertest.Put(t, sensors)
			r, now := readerOf(t, root)
			var got Throttling
			for _, ticks := range []uint32{10657785, 10672785, 10687785} {
				hosttest.Put(t, root, dev+"/gpu_metrics", residencyTable(ticks, 0, ticks, ticks, 0, ticks))
				got = r.Read().Throttling
				*now = now.Add(window)
			}
			require.Equal(t, Known(0), got.Limits)
			require.Equal(t, Known(0), got.ThermalShare)
			require.Equal(t, []Residency{{Reason: "prochot", Ticks: 0}, {Reason: "vr_thermal", Ticks: 0}}, got.Residency, "no series for what means nothing")
		})
	}
}

// A residency counts if its sensor was near its limit, or if it has no sensor that is known.
func TestResidencyIsComparedWithItsSensor(t *testing.T) {
	for name, tt := range map[string]struct {
		sensors           map[string]string
		socket, vr, hbm   uint32 // ticks of 1000
		limits, thermally float64
	}{
		"a cool socket":                 {exportertest.Sensors("junction", 42, 100), 900, 0, 0, 0, 0},
		"a hot socket":                  {exportertest.Sensors("junction", 95, 100), 900, 0, 0, 1, .9},
		"cool memory":                   {exportertest.Sensors("junction", 95, 100, "mem", 50, 105), 100, 0, 900, 1, .1},
		"regulators without a sensor":   {exportertest.Sensors("junction", 42, 100), 900, 300, 0, 1, .3},
		"a guest has no limits":         {exportertest.Sensors("junction", 99, 0, "mem", 99, 0), 200, 0, 100, 2, .2},
		"a guest has no sensors at all": {nil, 0, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := exportertest.Put(t, tt.sensors)
			r, now := readerOf(t, root)
			hosttest.Put(t, root, dev+"/gpu_metrics", residencyTable(1000, 0, 0, 0, 0, 0))
			r.Read()
			*now = now.Add(window)
			hosttest.Put(t, root, dev+"/gpu_metrics", residencyTable(2000, 0, 0, tt.socket, tt.vr, tt.hbm))
			got := r.Read().Throttling
			require.Equal(t, Known(tt.limits), got.Limits)
			require.InDelta(t, tt.thermally, got.ThermalShare.Value, 1e-9)
		})
	}
}

func TestResidencyOfACooledGPUIsValid(t *testing.T) {
	root := exportertest.Put(t, exportertest.Sensors("junction", 99, 100))
	r, now := readerOf(t, root)
	hosttest.Put(t, root, dev+"/gpu_metrics", residencyTable(1000))
	r.Read()
	*now = now.Add(window)
	hosttest.Put(t, root, dev+"/hwmon/hwmon3/temp1_input", "70000\n")
	hosttest.Put(t, root, dev+"/gpu_metrics", residencyTable(2000, 0, 0, 500))
	require.Equal(t, Known(1), r.Read().Throttling.Limits, "it was hot within the time of the ticks")
}

// The heat of an APU's processor is not a limit of its GPU (thm_core of a Strix).
func TestHeatOfAProcessorDoesNotThrottleItsGPU(t *testing.T) {
	table := func(core, gfx uint32) string {
		b := []byte(numbers(264, 3, 0, nil))
		binary.LittleEndian.PutUint32(b[244:], core)
		binary.LittleEndian.PutUint32(b[248:], gfx)
		return string(b)
	}
	root := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n", "gpu_metrics": table(100, 0)})
	r, now := readerOf(t, root)
	r.Read()
	*now = now.Add(window)
	hosttest.Put(t, root, dev+"/gpu_metrics", table(9000, 0))
	got := r.Read().Throttling
	require.Equal(t, Known(0), got.Limits)
	require.Contains(t, got.Residency, Residency{Reason: "core_thermal", Ticks: 9000}, "it is shown all the same")
	*now = now.Add(window)
	hosttest.Put(t, root, dev+"/gpu_metrics", table(9000, 5))
	require.Equal(t, Known(1), r.Read().Throttling.Limits)
}
