//go:build e2e

package concourse

import (
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/base/host"
)

// standInGPUs is how many GPUs of a fixture can be handed out.
const standInGPUs = 2

// gpuNodes are the nodes of the fixture's first GPUs, with /dev/kfd first: render node and
// card of each.
func gpuNodes(root host.Root) (nodes []string) {
	if !root.Exists("/dev/kfd") {
		return nil // the fixture of a machine without a GPU
	}
	nodes = []string{"/dev/kfd"}
	for i := range standInGPUs {
		render := fmt.Sprintf("renderD%d", 128+i)
		found, _ := root.Glob("/sys/bus/pci/drivers/amdgpu/*/drm/" + render)
		if len(found) != 1 {
			continue // it has no more, or another maker's
		}
		if cards, _ := root.Glob(path.Dir(found[0]) + "/card*"); len(cards) == 1 {
			nodes = append(nodes, "/dev/dri/"+render, "/dev/dri/"+path.Base(cards[0]))
		}
	}
	return nodes
}

// standIns gives a fixture's AMD GPUs numbers of devices that this machine has
// and anybody may open who may open the node; runc allows none of them by
// default, so that one which opens was passed on. The GPUs' own numbers have no
// driver here.
func standIns(t *testing.T, root host.Root) {
	t.Helper()
	nodes := gpuNodes(root)
	if len(nodes) == 0 {
		return
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
	require.GreaterOrEqual(t, len(free), len(nodes), "/proc/misc has too few devices to stand in for a GPU's")
	for i, node := range nodes {
		number := "10:" + free[i]
		require.NoError(t, root.WriteFile(node, []byte(number+" 0660 0 44\n"), 0o644))
		if i > 0 { // sysfs has a file with the number, too
			at := path.Join("/sys/class/drm", path.Base(node), "dev")
			require.NoError(t, root.WriteFile(at, []byte(number+"\n"), 0o644))
		}
	}
	require.NoError(t, root.WriteFile(errorsFile, []byte("ue: 0\nce: 0\n"), 0o644))
	replace(t, root, "/proc/devices", "235 kfd", " 10 kfd")
	properties, err := root.Glob("/sys/class/kfd/kfd/topology/nodes/*/properties")
	require.NoError(t, err)
	for i, node := range nodes {
		minor, is := strings.CutPrefix(node, "/dev/dri/renderD")
		for _, file := range properties {
			text, err := root.ReadText(file)
			require.NoError(t, err)
			if is && strings.Contains(text+"\n", "drm_render_minor "+minor+"\n") {
				replace(t, root, file, "drm_render_minor "+minor, "drm_render_minor "+free[i])
				break
			}
		}
	}
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
