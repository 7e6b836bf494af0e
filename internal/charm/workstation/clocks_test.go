package workstation

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestFixedClocksEndWithTheBoot(t *testing.T) {
	c := clocks{Host: machineOf(t, "mi210x4")}
	const gpu = "0000:23:00.0"
	hosttest.Put(t, c.Root, fixedclocks.DefaultDir+"/"+gpu,
		`{"version":1,"container":"run-4f1c0a2b91d3","bundle":"/run/b","boot":"first","level":"profile_standard","since":1767322920000}`)
	for boot, want := range map[string]string{"first\n": "run-4f1c0a2b91d3", "second\n": ""} {
		hosttest.Put(t, c.Root, "/proc/sys/kernel/random/boot_id", boot)
		run, fixed := c.Fixed(gpu)
		require.Equal(t, want, run)
		require.Equal(t, want != "", fixed)
		level, why := c.of("run-4f1c0a2b91d3", []string{gpu, "0000:43:00.0"})
		require.Equal(t, want != "", level == fixedclocks.Standard)
		require.Equal(t, want != "", why != "", "no look yet")
	}
	hosttest.Put(t, c.Root, fixedclocks.DefaultDir+"/"+gpu, "{")
	_, fixed := c.Fixed(gpu)
	require.True(t, fixed, "a damaged record is restored")
}

// The driver is asked about the first partition of a GPU, which has the name of the whole one.
func TestPartitionsAfterTheFirstHaveNoClocksToFix(t *testing.T) {
	for host, want := range map[string]int{"mi210x4": 4, "mi300x-cpx": 2} {
		r := machineOf(t, host).Root
		m, err := runMachine(r)
		require.NoError(t, err)
		n := 0
		for _, g := range m.GPUs {
			if g.Clocks != nil {
				n++
				require.Equal(t, r.Path(fixedclocks.Devices+"/"+g.PCI), g.Clocks.Sysfs)
			}
		}
		require.Equal(t, want, n, host)
	}
}
