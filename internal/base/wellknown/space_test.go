package wellknown

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestDiskIsFullBeforeItsLastByte(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for name, c := range map[string]struct {
		size, free, inodes uint64
		full               bool
	}{
		"unknown":              {0, 0, 0, false},
		"free":                 {20 * gib, gib, 1000, false},
		"64 MiB":               {12 * gib, 64 * mib, 1000, false},
		"less":                 {12 * gib, 64*mib - 1, 1000, true},
		"half a percent":       {1000 * gib, 5*gib - 1, 1000, true},
		"a small disk":         {100 * mib, 5 * mib, 1000, false},
		"less of a small disk": {100 * mib, 5*mib - 1, 1000, true},
		"no inodes":            {20 * gib, gib, 15, true},
		"inodes as needed":     {20 * gib, gib, math.MaxUint64, false},
	} {
		require.Equal(t, c.full, Space{c.size, c.free, c.inodes}.Full(), name)
	}
	btrfs := unix.Statfs_t{Blocks: 1000, Bavail: 500, Bsize: 4096}
	require.Equal(t, Space{4096000, 2048000, math.MaxUint64}, SpaceOf(btrfs))
}
