package gpu

import (
	"math"
	"strings"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/stretchr/testify/require"
)

func TestGFXName(t *testing.T) {
	for target, want := range map[uint64]string{
		0: "", 80003: "gfx803", 90008: "gfx908", 90010: "gfx90a", 90012: "gfx90c", 90402: "gfx942", 90500: "gfx950",
		100300: "gfx1030", 110000: "gfx1100", 110001: "gfx1101", 110003: "gfx1103", 110501: "gfx1151", 120001: "gfx1201",
	} {
		require.Equal(t, want, gfxName(target), target)
	}
	require.True(t, strings.HasPrefix(gfxName(math.MaxUint64), "gfx"))
}

func TestPropertiesOfATopologyNode(t *testing.T) {
	n := parseProperties("simd_count 168\ngfx_target_version 110000\nlocation_id 2147484416\ndomain 1\ndrm_render_minor 129\nunique_id 255\n")
	require.Equal(t, topologyNode{render: 129, domain: 1, location: 0x80000300, partition: 8, target: 110000, uniqueID: "00000000000000ff"}, n)
	require.Equal(t, "0001:03:00.0", n.address())
	require.Equal(t, topologyNode{}, parseProperties("drm_render_minor -1\ndomain x\nlocation_id 4294967296\nunique_id 0\ngfx_target_version"))
}

func FuzzParseProperties(f *testing.F) {
	f.Add("cpu_cores_count 0\nlocation_id 768\ndomain 0\ndrm_render_minor 128\nunique_id 5468377468\ngfx_target_version 90010\n")
	f.Add("drm_render_minor 18446744073709551616\nlocation_id\n\x00 \n")
	f.Fuzz(func(t *testing.T, text string) {
		n := parseProperties(text)
		_, ok := pci.Parse(n.address())
		require.True(t, ok, n.address())
		require.True(t, n.uniqueID == "" || len(n.uniqueID) == 16)
		require.Less(t, n.partition, 16)
		require.Equal(t, n.target == 0, gfxName(n.target) == "")
	})
}

func FuzzCharMajor(f *testing.F) {
	f.Add("Character devices:\n  1 mem\n235 kfd\n\nBlock devices:\n  8 sd\n")
	f.Add("Block devices:\n235 kfd\nCharacter devices:\n99999999999 kfd\n")
	f.Fuzz(func(t *testing.T, text string) {
		major, ok := charMajor(text, "kfd")
		require.Less(t, major, uint32(4096))
		if ok {
			require.Contains(t, text, "kfd")
			require.Contains(t, text, "Character")
		}
	})
}

func FuzzParseUevent(f *testing.F) {
	f.Add("DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=1002:744C\nPCI_SLOT_NAME=0000:03:00.0\n")
	f.Add("PCI_ID=\nPCI_ID=1002\nPCI_CLASS=0x\nPCI_SLOT_NAME=../../etc\n=")
	f.Fuzz(func(t *testing.T, text string) {
		fn := parseUevent(text)
		require.True(t, fn.addr == "" || pci.IsAddress(fn.addr))
	})
}
