//go:build e2e

package concourse

import (
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host"
)

// standIns gives a fixture's AMD GPU numbers of devices that this machine has
// and anybody may open who may open the node; runc allows none of them by
// default, so that one which opens was passed on. The GPU's own numbers have no
// driver here.
func standIns(t *testing.T, root host.Root) {
	t.Helper()
	const (
		kfd, render, card = "/dev/kfd", "/dev/dri/renderD128", "/dev/dri/card0"
		nodes             = "/sys/class/kfd/kfd/topology/nodes"
	)
	if !root.Exists(kfd) {
		return // the fixture of a machine without a GPU
	}
	text, err := os.ReadFile("/proc/misc")
	require.NoError(t, err)
	minors := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 {
			minors[f[1]] = f[0]
		}
	}
	var free []string
	for _, name := range []string{"autofs", "loop-control", "cpu_dma_latency", "userfaultfd", "vga_arbiter", "vsock"} {
		if m, ok := minors[name]; ok {
			free = append(free, m)
		}
	}
	require.GreaterOrEqual(t, len(free), 3, "/proc/misc has too few devices to stand in for a GPU's")
	for i, node := range []string{kfd, render, card} {
		number := "10:" + free[i]
		require.NoError(t, root.WriteFile(node, []byte(number+" 0660 0 44\n"), 0o644))
		if node != kfd { // sysfs has a file with the number, too
			at := path.Join("/sys/class/drm", path.Base(node), "dev")
			require.NoError(t, root.WriteFile(at, []byte(number+"\n"), 0o644))
		}
	}
	replace(t, root, "/proc/devices", "235 kfd", " 10 kfd")
	replace(t, root, nodes+"/1/properties", "drm_render_minor 128", "drm_render_minor "+free[1])
}

func replace(t *testing.T, root host.Root, file, old, by string) {
	t.Helper()
	text, err := root.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), old, file)
	require.NoError(t, root.WriteFile(file, []byte(strings.Replace(string(text), old, by, 1)), 0o644))
}

// numberOf is a node's device number as `ls -l` writes it.
func numberOf(t *testing.T, root host.Root, node string) string {
	t.Helper()
	n, err := root.Node(node)
	require.NoError(t, err)
	return fmt.Sprintf("%d, %3d", n.Major, n.Minor)
}
