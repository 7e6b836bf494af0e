package gpumetrics

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever a file holds, values are plausible and come from inside it.
func FuzzDecode(f *testing.F) {
	for _, name := range names() {
		f.Add(newTable(f, name).b)
	}
	f.Add(sealed(attr(attr(stream(Revision{1, 9}), 0, u16, 2, 61), 29, u64, 9, 1, 2, 3)))
	f.Add(sealed(attr(stream(Revision{1, 1}), 40, u32, 10, 35)))
	f.Add([]byte{4, 0, 9, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, decode := range []func([]byte, []Value) (Revision, []Value, error){Decode, DecodePartition} {
			r, values, err := decode(b, nil)
			if err == nil {
				require.Equal(t, Revision{b[2], b[3]}, r)
			}
			require.LessOrEqual(t, len(values), len(b), "more numbers than bytes")
			for _, v := range values {
				require.Less(t, v.Field, NumFields)
				require.False(t, math.IsNaN(v.Value) || math.IsInf(v.Value, 0))
				require.Contains(t, []uint8{8, 16, 32, 64}, v.Bits)
			}
		}
	})
}
