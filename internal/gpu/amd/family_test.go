package amd

import (
	"bufio"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFamilies(t *testing.T) {
	for id, want := range map[uint16]Family{
		0x74a1: Instinct, 0x74b5: Instinct, 0x740f: Instinct, 0x738c: Instinct, 0x75a3: Instinct,
		0x744c: Radeon, 0x73bf: Radeon, 0x7550: Radeon, 0x7461: Radeon,
		0x15bf: APU, 0x1586: APU, 0x163f: APU, 0x164e: APU,
		0x0000: Unknown, 0x9874: Unknown, 0xffff: Unknown,
	} {
		require.Equal(t, want, familyOf(id), "%04x", id)
	}
}

// Where the machine has pci.ids, the table agrees with its names.
func TestFamiliesAgreeWithPCIIDs(t *testing.T) {
	file := os.Getenv("PCI_IDS")
	if file == "" {
		file = "/usr/share/misc/pci.ids"
	}
	f, err := os.Open(file)
	if err != nil {
		t.Skipf("no pci.ids here: %v", err)
	}
	defer f.Close()
	card := regexp.MustCompile(`Navi|Vega 20`)
	amd, compared := false, map[uint16]bool{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		if line == "" || line[0] == '#' || strings.HasPrefix(line, "\t\t") {
			continue
		}
		if line[0] != '\t' {
			amd = strings.HasPrefix(line, "1002 ")
			continue
		}
		if !amd {
			continue
		}
		id, err := strconv.ParseUint(line[1:5], 16, 16)
		require.NoError(t, err)
		family := familyOf(uint16(id))
		if family == Unknown {
			continue
		}
		compared[uint16(id)] = true
		name := line[7:]
		switch {
		case strings.Contains(name, "Instinct"), strings.Contains(name, "Arcturus"):
			require.Equal(t, Instinct, family, line)
		case card.MatchString(name):
			require.NotEqual(t, APU, family, line)
		default:
			require.Equal(t, APU, family, line)
		}
	}
	// These were there in 2023, some of each family: Debian 12's pci.ids has no later ones.
	for _, id := range []uint16{0x66a0, 0x738c, 0x7408, 0x740f, 0x73bf, 0x744c, 0x15bf, 0x163f, 0x164e, 0x1681} {
		require.True(t, compared[id], "%04x is not in %s", id, file)
	}
}
