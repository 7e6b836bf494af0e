package gpumetrics

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStream(t *testing.T) {
	b := stream(Revision{1, 9})
	b = attr(b, 0, u16, 2, 61)                       // hotspot, degC
	b = attr(b, 200, s8, 2, 1, 2, 3)                 // unknown, of an odd size: all after it is unaligned
	b = attr(b, 17, u16, 7, 320)                     // PCIe speed, 0.1 GT/s
	b = attr(b, 19, u16, 6, 32)                      // XGMI speed, GT/s
	b = attr(b, 7, u64, 0, 5<<16)                    // energy, no unit named
	b = attr(b, 29, u64, 9, 1, 0xffffffffffffffff)   // XGMI bytes, one link
	b = attr(b, 9, u64, 0, 1<<33)                    // accumulation counter
	b = attr(b, 40, u32, 10, 100, 0, 101)            // busy, the last impossible
	b = attr(b, 48, u16, 2, 47, 0, 0xffff)           // memory stacks
	b = attr(b, 31, u16, 0, 1, 0, 2)                 // links: up, down, neither
	b = attr(b, 1, u16, 3, 44)                       // a temperature in watts is none
	b = attr(b, 2, u16, 200, 44)                     // in a unit that no one knows
	b = attr(b, 5, u16, 10)                          // no instance
	b = attr(b, 33, s16, 1, 0x7fff, 0x8000, 0, 2100) // signed, with the ends of its range
	r, values, err := Decode(sealed(b), nil)
	require.NoError(t, err)
	require.Equal(t, Revision{1, 9}, r)
	require.Equal(t, map[string]float64{"temperature_hotspot": 61, "pcie_link_speed": 32e9, "xgmi_link_speed": 32e9,
		"energy_accumulator": 5, "xgmi_read_data_acc": 1024, "accumulation_counter": 1 << 33,
		"gfx_busy_inst": 1, "gfx_busy_inst[1]": 0, "temperature_hbm": 47,
		"xgmi_link_status": 1, "xgmi_link_status[1]": 0, "current_gfxclk[3]": 2.1e9}, text(values))
}

func TestPartitionStream(t *testing.T) {
	b := attr(stream(Revision{1, 1}), 40, u32, 10, 35)
	_, values, err := DecodePartition(sealed(b), nil)
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"gfx_busy_inst": 0.35}, text(values))
}

func TestDamagedStreams(t *testing.T) {
	whole := func() []byte { return sealed(attr(attr(stream(Revision{1, 9}), 0, u16, 2, 61), 1, u16, 2, 44)) }
	resize := func(b []byte, n int) []byte {
		binary.LittleEndian.PutUint16(b, uint16(n))
		return b[:n]
	}
	for name, b := range map[string][]byte{
		"no count":                  resize(whole(), 6),
		"ends in an encoding":       resize(whole(), 23),
		"ends in a value":           resize(whole(), len(whole())-1),
		"a type that there is none": func() []byte { b := whole(); b[8+10+2] |= 0xf0; return b }(),
		"more instances than bytes": func() []byte { b := whole(); b[8+10] = 0xff; return b }(),
		"more attributes than bytes": func() []byte {
			b := whole()
			binary.LittleEndian.PutUint32(b[4:], 0x7fffffff)
			return b
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			_, values, err := Decode(b, nil)
			require.ErrorIs(t, err, errDamaged)
			if len(b) > 20 {
				require.Equal(t, TemperatureHotspot, values[0].Field, "what came before the damage is kept")
			}
		})
	}
	b := whole()
	binary.LittleEndian.PutUint32(b[4:], 0xffffffff)
	_, values, err := Decode(b, nil)
	require.NoError(t, err)
	require.Empty(t, values, "a negative count is none")
}

// AMD's driver package numbers the temperatures of dies otherwise than mainline, which
// alone has attribute 51.
func TestTemperaturesOfDiesUnderBothNumberings(t *testing.T) {
	for name, tt := range map[string]struct {
		ids  []int
		want []Field
	}{
		"mainline":          {[]int{48, 49, 50, 51}, []Field{TemperatureHBM, TemperatureMid, TemperatureAid, TemperatureXcd}},
		"AMD's own package": {[]int{48, 49, 50}, []Field{TemperatureHBM, TemperatureAid, TemperatureXcd}},
	} {
		b := stream(Revision{1, 9})
		for _, id := range tt.ids {
			b = attr(b, id, u16, 2, uint64(id))
		}
		_, values, err := Decode(sealed(b), nil)
		require.NoError(t, err, name)
		var got []Field
		for _, v := range values {
			got = append(got, v.Field)
		}
		require.Equal(t, tt.want, got, name)
	}
}
