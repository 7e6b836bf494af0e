package exporter

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	gm "concourse-ci-machine/internal/exporter/gpumetrics"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/host/hosttest"
)

// attributeTable is a gpu_metrics v1_9 of 64-bit numbers by attribute.
func attributeTable(values map[int]uint64) []byte {
	b := []byte{0, 0, 1, 9, byte(len(values)), 0, 0, 0}
	for id := range 64 {
		if v, ok := values[id]; ok {
			b = appendAttribute(b, id, []uint64{v})
		}
	}
	return b
}

// appendAttribute adds an attribute, and puts the table's size right.
func appendAttribute(b []byte, id int, values []uint64) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(values))|uint64(id)<<10|6<<20)
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	binary.LittleEndian.PutUint16(b, uint16(len(b)))
	return b
}

// cardOf is a card of the device at dev, with a clock of its own.
func cardOf(r host.Root) (*card, *time.Time) {
	now := hosttest.Now
	c := newCollector(r)
	c.now = func() time.Time { return now }
	return newCard(c, Device{PCI: "0000:03:00.0", Dir: dev, Own: dev}, ""), &now
}

func readAll(c *card) map[string]float64 { return allOf(c.read(true, newMemory())) }

func TestThermalResidencyThatGrowsIsThrottling(t *testing.T) {
	const total, prochot, ppt, socket = 9, 10, 11, 12
	r := put(t, map[string]string{"gpu_busy_percent": "5\n"})
	write := func(ticks, prochots, ppts, sockets uint64) {
		hosttest.Put(t, r, dev+"/gpu_metrics", string(attributeTable(map[int]uint64{total: ticks, prochot: prochots, ppt: ppts, socket: sockets})))
	}
	c, now := cardOf(r)
	write(1000, 0, 0, 0)
	require.NotContains(t, readAll(c), "rocm_gpu_throttle_status", "one reading tells no growth")

	*now = now.Add(window)
	write(2000, 0, 900, 0)
	got := readAll(c)
	require.Equal(t, 0.0, got["rocm_gpu_throttle_status"], "power is not heat")
	require.Equal(t, 900.0, got[`rocm_gpu_throttle_residency_total{reason="ppt"}`])

	*now = now.Add(window)
	write(3000, 10, 900, 250)
	require.Equal(t, 2.0, readAll(c)["rocm_gpu_throttle_status"])
	require.InDelta(t, .25, *c.throttle.share, 1e-9)
	require.Equal(t, 2.0, readAll(c)["rocm_gpu_throttle_status"], "a second server sees the same growth")

	*now = now.Add(window)
	write(4000, 10, 900, 250)
	readAll(c)
	*now = now.Add(window)
	write(5000, 10, 900, 250)
	require.Equal(t, 0.0, readAll(c)["rocm_gpu_throttle_status"])

	*now = now.Add(window)
	write(50, 9, 0, 9) // the firmware began again
	require.NotContains(t, readAll(c), "rocm_gpu_throttle_status")
}

func TestCountersOf32BitsWrapAround(t *testing.T) {
	v := func(f gm.Field, raw uint64) gm.Value { return gm.Value{Field: f, Bits: 32, Raw: raw} }
	before := residency{total: v(gm.AccumulationCounter, 0xffffff00), counts: []gm.Value{v(gm.VRThermalResidencyAcc, 0xfffffff0)}}
	n, most, ticks, ok := before.until(residency{total: v(gm.AccumulationCounter, 0x100), counts: []gm.Value{v(gm.VRThermalResidencyAcc, 0x10)}})
	require.True(t, ok)
	require.Equal(t, 1, n)
	require.Equal(t, 32.0, most)
	require.Equal(t, 512.0, ticks)
	_, _, _, ok = before.until(residency{total: v(gm.AccumulationCounter, 0xffffff10), counts: []gm.Value{v(gm.VRThermalResidencyAcc, 3)}})
	require.False(t, ok, "more than there was time for")
	apu := residency{counts: []gm.Value{v(gm.ThrottleResidencyThermalGFX, 7)}}
	_, _, _, ok = apu.until(residency{counts: []gm.Value{v(gm.ThrottleResidencyThermalGFX, 6)}})
	require.False(t, ok)
}

// The firmware of RDNA 3 and 4 sets the hotspot's bit on idle cards: a thermal bit
// counts where the sensor that it speaks of is near its limit.
func TestThermalBitsCountWhereTheirSensorIsNearItsLimit(t *testing.T) {
	const hotspot, mem, vr, prochot = 1 << 36, 1 << 34, 1 << 38, 1 << 47
	for name, tt := range map[string]struct {
		bits        uint64
		junction    string // millidegrees, of 100,000; "" for no sensor
		status      any    // nil: there is none
		active      float64
		unspecified float64
	}{
		"none":                          {0, "54000", 0.0, 0, 0},
		"power and current limits":      {1<<1 | 1<<16 | 1<<57, "54000", 0.0, 0, 0},
		"hotspot on a cool card":        {hotspot, "54000", 0.0, 0, 0},
		"hotspot near the limit":        {hotspot, "90000", 1.0, 1, 0},
		"hotspot without a sensor":      {hotspot, "", nil, 0, 1},
		"memory without a sensor":       {mem, "95000", 0.0, 0, 1},
		"nobody knows these sensors":    {vr | prochot, "95000", 0.0, 0, 1},
		"hotspot and one not known, on": {hotspot | vr, "99000", 1.0, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"gpu_busy_percent": "5\n", "hwmon/hwmon0/name": "amdgpu\n"}
			if tt.junction != "" {
				files["hwmon/hwmon0/temp2_label"], files["hwmon/hwmon0/temp2_crit"] = "junction\n", "100000\n"
				files["hwmon/hwmon0/temp2_input"] = tt.junction + "\n"
			}
			c, _ := cardOf(put(t, files))
			readAll(c)
			c.turn++
			c.sample = &Sample{}
			c.throttle = throttleState{active: map[int]*slot{}}
			c.readThrottle([]gm.Value{{Field: gm.IndepThrottleStatus, Raw: tt.bits}}, gm.Revision{})
			c.showBits()
			got := allOf(*c.sample)
			if tt.status == nil {
				require.NotContains(t, got, "rocm_gpu_throttle_status")
				require.Nil(t, c.throttle.share, "health leaves it out")
			} else {
				require.Equal(t, tt.status, got["rocm_gpu_throttle_status"])
			}
			require.Equal(t, tt.active, got[`rocm_gpu_throttle_active{reason="temp_hotspot"}`])
			require.Equal(t, tt.unspecified, got[`rocm_gpu_throttle_active{reason="unspecified"}`])
		})
	}
}

func TestRawThrottleStatusDoesNotFeedTheThermalAlert(t *testing.T) {
	b := make([]byte, 80)
	b[0], b[2], b[68] = 80, 1, 4
	r := put(t, map[string]string{"gpu_metrics": string(b)})
	c, _ := cardOf(r)
	got := readAll(c)
	require.NotContains(t, got, "rocm_gpu_throttle_status")
	require.Equal(t, 1.0, got[`rocm_gpu_throttle_active{reason="unspecified"}`])
}

func TestTablesThatCantBeReadAreCountedAndCostNothingElse(t *testing.T) {
	r := put(t, map[string]string{"gpu_busy_percent": "5\n", "gpu_metrics": "\x08\x00\x04\x02----"})
	c, _ := cardOf(r)
	readAll(c)
	got := readAll(c)
	require.Equal(t, 2.0, got[`rocm_exporter_unknown_tables_total{file="gpu_metrics",revision="v4_2"}`])
	require.Equal(t, 5.0, got["rocm_gpu_utilization"])
	hosttest.Put(t, r, dev+"/gpu_metrics", "\x00\x00\x00\x00")
	s := c.read(true, newMemory())
	require.Equal(t, []Failure{{"gpu_metrics", "damaged"}}, s.Failures)
	require.Equal(t, 5.0, allOf(s)["rocm_gpu_utilization"])
}

func TestBitsOfATableThatIsGoneAreGone(t *testing.T) {
	b := make([]byte, 120)
	binary.LittleEndian.PutUint16(b, 120)
	b[2], b[3] = 1, 3
	binary.LittleEndian.PutUint64(b[112:], 1<<36)
	files := sensors("junction", 99, 100)
	files["gpu_metrics"] = string(b)
	r := put(t, files)
	c, _ := cardOf(r)
	require.Equal(t, 1.0, readAll(c)["rocm_gpu_throttle_status"])
	hosttest.Put(t, r, dev+"/gpu_metrics", "")
	require.NotContains(t, readAll(c), "rocm_gpu_throttle_status")
	require.Nil(t, c.throttle.share)
}
