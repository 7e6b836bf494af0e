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

// attributes is a gpu_metrics v1_9 of 32- and 64-bit numbers by attribute.
func attributeTable(values map[int]uint64) []byte {
	b := []byte{0, 0, 1, 9, byte(len(values)), 0, 0, 0}
	for id := range 64 {
		if v, ok := values[id]; ok {
			b = binary.LittleEndian.AppendUint64(b, 1|uint64(id)<<10|6<<20)
			b = binary.LittleEndian.AppendUint64(b, v)
		}
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

func TestBitsOfTheThrottleStatus(t *testing.T) {
	c, _ := cardOf(put(t, map[string]string{"gpu_busy_percent": "5\n"}))
	readAll(c)
	for name, want := range map[uint64]float64{0: 0, 1<<1 | 1<<16 | 1<<57: 0, 1 << 36: 1, 1<<32 | 1<<47 | 1: 2} {
		c.turn++
		c.sample = &Sample{}
		c.throttle = throttleState{active: map[int]*slot{}}
		c.showBits(name)
		require.Equal(t, want, allOf(*c.sample)["rocm_gpu_throttle_status"])
		require.Len(t, c.sample.Values, len(throttleBits)+1)
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
