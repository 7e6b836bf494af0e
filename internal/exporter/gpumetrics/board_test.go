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

func TestBoardTablesThatCantBeReadAreErrors(t *testing.T) {
	later := board(32, nil)
	later[3] = 1
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
