//go:build e2e

package container

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// The kernel reports the policy of the task's memory. The task is an exec, as Concourse's.
func TestTaskTakesMemoryOfItsGPUsNodeFirst(t *testing.T) {
	u := newUnit(t, 1)
	const devices, card = "/sys/bus/pci/devices", "0000:03:00.0"
	require.NoError(t, unix.Mount("devices", devices, "tmpfs", 0, "mode=0755"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(devices, unix.MNT_DETACH)) })
	require.NoError(t, os.Mkdir(filepath.Join(devices, card), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(devices, card, "numa_node"), []byte("0\n"), 0o444))
	for memory, want := range map[string]string{"": "default", oci.NearMemory: "prefer:0"} {
		b := u.container(settings[0])
		b.configure(oci.Config{
			GPUs:    []oci.GPU{{Name: card, CDI: "amd.com/gpu=GPU-0", Nodes: []string{"/dev/dri/renderD128"}}},
			Visible: []string{"AMD_VISIBLE_DEVICES"},
			Leases:  &oci.Leases{Dir: filepath.Join(u.dir, "leases"+memory), Memory: memory},
		})
		b.bundle()
		require.NoError(t, b.up())
		b.write("process", process(0, "read address policy rest < /proc/self/numa_maps; echo policy: $policy"))
		require.Equal(t, map[string]string{"policy": want}, found(b.output(nil, "exec", "--process", b.path("process"), b.id)))
	}
}
