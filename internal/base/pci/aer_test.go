package pci

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzAERTotal(f *testing.F) {
	f.Add("RxErr 2\nTOTAL_ERR_COR 3\n")
	f.Add("TOTAL_ERR_FATAL 18446744073709551615")
	f.Fuzz(func(t *testing.T, text string) {
		if n, ok := AERTotal(text); ok {
			require.GreaterOrEqual(t, n, 0.0)
		}
	})
}
