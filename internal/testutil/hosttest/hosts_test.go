package hosttest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// TestFixtureHostsAreWhole: what a checkout and a copy must keep. Links are
// relative, end inside the tree and exist; git would lose empty folders.
func TestFixtureHostsAreWhole(t *testing.T) {
	for _, name := range hosttest.HostNames() {
		t.Run(name, func(t *testing.T) {
			from := host.Root(filepath.Join(hosttest.HostsDir(), name))
			r := hosttest.Host(t, name)
			links := 0
			require.NoError(t, filepath.WalkDir(from.Path("/"), func(full string, e fs.DirEntry, err error) error {
				require.NoError(t, err)
				p := from.Rel(full)
				switch {
				case e.IsDir():
					entries, err := os.ReadDir(full)
					require.NoError(t, err)
					require.NotEmpty(t, entries, p)
				case e.Type() == fs.ModeSymlink:
					links++
					want, err := os.Readlink(full)
					require.NoError(t, err)
					got, err := r.Readlink(p)
					require.NoError(t, err)
					require.Equal(t, want, got)
					require.False(t, filepath.IsAbs(got), p)
					end, err := r.Resolve(p)
					require.NoError(t, err)
					require.True(t, strings.HasPrefix(end, "/sys/"), end)
				default:
					require.True(t, e.Type().IsRegular(), p)
				}
				return nil
			}))
			require.NotZero(t, links)
			for _, p := range []string{"/etc/hostname", "/etc/os-release", "/proc/devices", "/proc/sys/kernel/osrelease"} {
				require.True(t, r.Exists(p), p)
			}
		})
	}
}

// TestFixtureSensors: the differences of the hardware that an exporter must
// cope with are there to be met.
func TestFixtureSensors(t *testing.T) {
	const labels = "/sys/class/drm/card*/device/hwmon/hwmon*/temp*_label"
	for name, want := range map[string]string{
		"amd": "edge junction mem", "apu-gfx1103": "edge", "mi300x-cpx": "junction mem junction mem",
		"mi210x4": "edge junction mem edge junction mem edge junction mem edge junction mem",
	} {
		r := hosttest.Host(t, name)
		found, err := r.Glob(labels)
		require.NoError(t, err)
		var got []string
		for _, f := range found {
			text, err := r.ReadText(f)
			require.NoError(t, err)
			got = append(got, text)
		}
		require.Equal(t, want, strings.Join(got, " "), name)
	}
	require.False(t, hosttest.Host(t, "apu-gfx1103").Exists("/sys/class/drm/card1/device/mem_busy_percent"))
}

// TestManyGPUs has as many as asked for, with cards of two digits.
func TestManyGPUs(t *testing.T) {
	r := hosttest.ManyGPUs(t, 64)
	cards, err := r.Glob("/sys/class/drm/card*/device/gpu_busy_percent")
	require.NoError(t, err)
	require.Len(t, cards, 64)
	driver, err := r.Resolve("/sys/class/drm/card64/device/driver")
	require.NoError(t, err)
	require.Equal(t, "/sys/bus/pci/drivers/amdgpu", driver)
	for _, p := range cards {
		require.True(t, r.Exists(filepath.Dir(p)+"/hwmon"), p)
	}
}
