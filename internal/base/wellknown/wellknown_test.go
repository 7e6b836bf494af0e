package wellknown

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Other names of containers come from Docker, from Kubernetes, and from people.
func TestContainersOfConcourseHaveAUUID(t *testing.T) {
	for name, want := range map[string]bool{
		"0badcafe-0000-4000-8000-000000000001":  true,
		"09af09af-09af-09af-09af-09af09af09af":  true,
		"":                                      false,
		"0badcafe-0000-4000-8000-00000000001":   false,
		"0badcafe-0000-4000-8000-0000000000012": false,
		"0badcafe00000-4000-8000-000000000001":  false,
		"0badcafe-0000040000-8000-000000000001": false,
		"0badcafe-0000-4000-80000000000000000a": false,
		"-badcafe-0000-4000-8000-000000000001":  false,
		strings.Repeat("0", 36):                 false,
	} {
		require.Equal(t, want, IsHandle(name), name)
	}
	for _, c := range "/:`gAFG_" { // beside the digits, the letters, and in upper case
		require.False(t, IsHandle("0badcafe-0000-4000-8000-00000000000"+string(c)), "%q", c)
	}
}
