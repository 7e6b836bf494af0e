package gpumetrics

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// board is a table of n places, of which the given ones have a sensor and degrees.
func board(n int, at map[int][2]uint32) []byte {
	b := make([]byte, boardBegin, boardBegin+4*n)
	b[2] = 1
	for i := range n {
		v, ok := at[i]
		if !ok {
			v = [2]uint32{0xff, 0xffffff}
		}
		b = binary.LittleEndian.AppendUint32(b, v[0]<<24|v[1])
	}
	binary.LittleEndian.PutUint16(b, uint16(len(b)))
	return b
}

func TestBoardSensorsHaveTheirNames(t *testing.T) {
	got, err := DecodeBaseboard(board(32, map[int][2]uint32{0: {0, 41}, 1: {22, 38}, 5: {200, 50}, 6: {3, 0}, 7: {4, 4000}}))
	require.NoError(t, err)
	require.Equal(t, []BoardTemperature{{"ubb_fpga", 41}, {"ibc", 38}}, got)

	got, err = DecodeGPUBoard(board(25, map[int][2]uint32{0: {1, 44}, 12: {0, 61}, 13: {12, 55}}))
	require.NoError(t, err)
	require.Equal(t, []BoardTemperature{{"oam_ibc", 44}, {"vddcr_vdd0", 61}, {"vddio_11_e32", 55}}, got)
}

// boardStream is a table v1_1: 64-bit encodings, each with a signed 16-bit number of degrees
// after it (SMU_15_0_8_GPUBOARD_TEMP_METRICS_FIELDS in smu_v15_0_8_ppt.h).
func boardStream(attributes ...[2]int) []byte {
	b := []byte{0, 0, 1, 1, byte(len(attributes)), 0, 0, 0}
	for _, a := range attributes {
		b = binary.LittleEndian.AppendUint64(b, 1|uint64(a[0])<<10|uint64(s16)<<20|2<<24)
		b = binary.LittleEndian.AppendUint16(b, uint16(a[1]))
	}
	binary.LittleEndian.PutUint16(b, uint16(len(b)))
	return b
}

func TestBoardStreamsHaveTheSensorsOfTheirNumbers(t *testing.T) {
	got, err := DecodeGPUBoard(boardStream([2]int{52, 1}, [2]int{53, 0}, [2]int{54, 41}, [2]int{59, 44}, [2]int{60, 61}, [2]int{80, 55},
		[2]int{62, -1}, [2]int{63, 0}, [2]int{64, 4000}, [2]int{104, 50}, [2]int{54, 42}))
	require.NoError(t, err)
	require.Equal(t, []BoardTemperature{{"retimer", 41}, {"oam_04_hbm_d_vr", 44}, {"vddcr_socio_a", 61}, {"vddan_075", 55}}, got)

	got, err = DecodeBaseboard(boardStream([2]int{81, 38}, [2]int{103, 47}))
	require.NoError(t, err)
	require.Equal(t, []BoardTemperature{{"ubb_fpga", 38}, {"ibc", 47}}, got)
	whole := boardStream([2]int{81, 38}, [2]int{82, 39})
	_, err = DecodeBaseboard(append(boardStream()[:4], whole[4:len(whole)-3]...))
	require.ErrorIs(t, err, errDamaged)
}

func TestUnreadableBoardTablesAreErrors(t *testing.T) {
	later := board(32, nil)
	later[3] = 2
	_, err := DecodeBaseboard(later)
	require.ErrorIs(t, err, ErrUnknown)
	for _, b := range [][]byte{nil, board(32, nil)[:15], board(32, nil)[:40]} {
		_, err := DecodeGPUBoard(b)
		require.ErrorIs(t, err, errDamaged)
	}
}

func FuzzBoard(f *testing.F) {
	f.Add(board(32, map[int][2]uint32{0: {0, 41}}))
	f.Add(board(25, map[int][2]uint32{0: {1, 44}, 24: {2, 9}}))
	f.Add(boardStream([2]int{54, 41}, [2]int{81, 38}))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, decode := range []func([]byte) ([]BoardTemperature, error){DecodeBaseboard, DecodeGPUBoard} {
			all, err := decode(b)
			require.True(t, err == nil || len(all) == 0)
			for _, s := range all {
				require.True(t, s.Sensor != "" && s.Celsius > 0 && s.Celsius <= 250)
			}
		}
	})
}
