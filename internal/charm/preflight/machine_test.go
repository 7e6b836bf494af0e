package preflight

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestKernelFunctionsWorkOnThisMachine(t *testing.T) {
	total, free, err := diskSpace("/")
	require.NoError(t, err)
	require.Greater(t, total, uint64(units.GB))
	require.LessOrEqual(t, free, total)
	_, err = clockSynced()
	require.NoError(t, err)
}

// A web and a worker without ROCm need less.
func TestOnlyWorkersForROCmHaveItsProfile(t *testing.T) {
	p, _ := fit(t, "amd", map[string]any{"compute-runtime": "none"})
	hosttest.Put(t, p.Host.Root, "/proc/meminfo", "MemTotal: 17000000 kB\n")
	for _, c := range p.run(context.Background()) {
		require.NotEqual(t, "profile", c.Name)
		require.Equal(t, OK, c.Level, "%s: %s", c.Name, c.Text)
	}
}

// A partition has no own queue.
func TestDiskOfAPartitionRotates(t *testing.T) {
	root := host.Root(t.TempDir())
	p := &preflight{Host: host.Host{Root: root}}
	hosttest.Put(t, root, "/sys/devices/pci/sda/queue/rotational", "1\n")
	hosttest.Put(t, root, "/sys/devices/pci/sda/sda1/start", "2048\n")
	hosttest.Put(t, root, "/sys/devices/virtual/dm-0/queue/rotational", "0\n")
	require.NoError(t, root.MkdirAll("/sys/dev/block", 0o755))
	for name, to := range map[string]string{"8:0": "sda", "8:1": "sda/sda1"} {
		require.NoError(t, os.Symlink("../../devices/pci/"+to, root.Path("/sys/dev/block/"+name)))
	}
	require.NoError(t, os.Symlink("../../devices/virtual/dm-0", root.Path("/sys/dev/block/253:0")))
	require.True(t, p.diskRotates("/sys/dev/block/8:0"))
	require.True(t, p.diskRotates("/sys/dev/block/8:1"))
	require.False(t, p.diskRotates("/sys/dev/block/253:0"))
	require.False(t, p.diskRotates("/sys/dev/block/0:42"), "ZFS and Btrfs have no disk")
}

// A machine without Juju may be a Debian, and no advice is for a deployment.
func TestPreflightWithoutJujuNamesNoJuju(t *testing.T) {
	withoutJuju := wellknown.Commands{Program: wellknown.MachineProgram}
	for series, want := range map[string]Level{"bookworm": OK, "trixie": OK, "buster": Warning} {
		p := &preflight{commands: withoutJuju, machine: machine.Machine{Distro: "debian", Series: series}}
		require.Equal(t, want, p.series().Level, series)
		require.NotContains(t, p.series().Remedy, "--base", series)
	}
	require.NotContains(t, (&preflight{commands: withoutJuju}).constrained("use more memory", "mem=..."), "--constraints")
}
