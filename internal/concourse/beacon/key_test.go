package beacon

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewKeysOfAProgramHave3072Bits(t *testing.T) {
	private, err := NewKey(KeyBits)
	require.NoError(t, err)
	key, problem := parseKey(private)
	require.Empty(t, problem)
	require.Equal(t, 3072, key.N.BitLen())
}
