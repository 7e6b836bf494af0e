package wellknown

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPCIAddressIsReadFromASlot(t *testing.T) {
	for name, want := range map[string]string{
		"0000:03:00.0":       "0000:03:00.0",
		"0000:c4:1f.7":       "0000:c4:1f.7",
		"00010000:03:00.0":   "00010000:03:00.0", // a domain of Hyper-V or VMD
		"0000:03:00.0-1":     "0000:03:00.0",
		"0000:03:00.0-15":    "0000:03:00.0",
		"":                   "",
		"0":                  "",
		"all":                "",
		"GPU-a1b2c3d4e5f60":  "",
		"03:00.0":            "",
		"0000:03:00":         "",
		"0000:03:00.0-":      "",
		"0000:03:00.0-x":     "",
		"0000:03:00.0-1-1":   "",
		"0000:03:00.0:1":     "",
		"0000:0g:00.0":       "",
		"0000:03:00.00":      "",
		"000000000:03:00.0":  "",
		"0000-03:00.0":       "",
		"0000:03:00.0 ":      "",
		"0000:0000:03:00.0":  "",
		"amd.com/gpu=0000:0": "",
	} {
		require.Equal(t, want, PCIOf(name), name)
	}
}
