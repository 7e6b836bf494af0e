package pci

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string]Address{
		"0000:03:00.0": {0, 3, 0, 0}, "03:00.0": {0, 3, 0, 0}, "0001:C3:1f.7": {1, 0xc3, 31, 7}, "10000:e1:00.0": {0x10000, 0xe1, 0, 0},
	} {
		got, ok := Parse(text)
		require.True(t, ok, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", ":", "::", "0000:03:00", "000:03:00.0", "0000:3:00.0", "0000:03:20.0", "0000:03:00.8",
		"0000:03:0.00", "0000:0g:00.0", "+000:03:00.0", "0000:03:00.0:", "100000000:03:00.0", strings.Repeat("0", 99) + ":03:00.0"} {
		_, ok := Parse(text)
		require.False(t, ok, text)
	}
}

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
		require.Equal(t, want, OfSlot(name), name)
	}
}

func TestFullAddressIsAsTheKernelWritesIt(t *testing.T) {
	require.True(t, IsFull("0000:c3:1f.7"))
	for _, text := range []string{"c3:1f.7", "0000:C3:1f.7", "../0000:c3:1f.7", ""} {
		require.False(t, IsFull(text), text)
	}
	require.Equal(t, -1, Compare("0000:03:00.0", "0000:0a:00.0"))
}

func TestPortsAboveADevice(t *testing.T) {
	require.Equal(t, []string{"0000:04:01.0", "0000:00:1b.4"},
		Ports("/sys/devices/pci0000:00/0000:00:1b.4/0000:04:01.0/0000:06:00.0"))
	for _, dir := range []string{"", "/", "/sys/devices/pci0000:00/0000:06:00.0", "0000:06:00.0"} {
		require.Empty(t, Ports(dir), dir)
	}
}
