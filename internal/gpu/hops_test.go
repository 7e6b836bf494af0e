package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHopsOfAWeight(t *testing.T) {
	for weight, want := range map[uint32]int{0: 1, 13: 1, 15: 1, 30: 2, 45: 3, 41: 1, 56: 2} {
		require.Equal(t, want, hopsOf(weight), weight)
	}
}
