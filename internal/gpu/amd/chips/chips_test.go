package chips

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A GPU with a name has a chip in all programs.
func TestEachModelHasAChipAndEachDeviceOne(t *testing.T) {
	for _, m := range models {
		require.NotEmpty(t, Of(m.device).GFX, m.name)
	}
	seen := map[uint16]bool{}
	for _, c := range table {
		require.NotEmpty(t, c.Family)
		for _, d := range c.Devices {
			require.False(t, seen[d], "%04x", d)
			seen[d] = true
		}
	}
}

func TestChipsOfDevices(t *testing.T) {
	for device, want := range map[uint16]struct {
		family Family
		gfx    string
	}{
		0x67df: {Radeon, "gfx803"}, 0x67b0: {Radeon, "gfx701"}, 0x687f: {Radeon, "gfx900"}, 0x66af: {Radeon, "gfx906"},
		0x731f: {Radeon, "gfx1010"}, 0x744c: {Radeon, "gfx1100"}, 0x74b6: {Instinct, "gfx942"},
		0x75b0: {Instinct, "gfx950"}, 0x75b3: {Instinct, "gfx950"}, 0x74a0: {Instinct, "gfx942"},
		0x13fe: {APU, "gfx1013"}, 0x164e: {APU, "gfx1036"}, 0x1586: {APU, "gfx1151"}, 0x7fff: {Unknown, ""},
	} {
		got := Of(device)
		require.Equal(t, want.family, got.Family, "%04x", device)
		require.Equal(t, want.gfx, got.GFX, "%04x", device)
		require.Equal(t, want.family == APU, Integrated(want.gfx))
	}
}

// KFD knows chips that are newer than the table of ids.
func TestChipOfAnUnknownDeviceComesFromItsArchitecture(t *testing.T) {
	require.Equal(t, Chip{APU, "gfx1151", "GC_11_5_0", nil}, Find(0x7fff, "gfx1151"))
	require.Equal(t, Chip{Unknown, "gfx1300", "", nil}, Find(0x7fff, "gfx1300"))
	require.Equal(t, Of(0x1506), Find(0x1506, "gfx1036"), "two blocks have this architecture")
	require.Equal(t, "GC_10_3_6", Find(0x7fff, "gfx1036").Labeller)
	require.Zero(t, Find(0x7fff, ""))
}
