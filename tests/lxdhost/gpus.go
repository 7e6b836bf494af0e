package lxdhost

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// The GPUs of the made-up host: the id that LXD lists them by is the card's
// number.
const (
	AMDPCI, AMDID       = "0000:03:00.0", "0"
	NVIDIAPCI, NVIDIAID = "0000:0a:00.0", "1"
)

// nodes are the host's device nodes. Behind each is a misc device of this
// kernel, which root of any user namespace can open and which no container may
// by default: a copy of /dev/null would prove nothing.
var nodes = []struct{ path, device string }{
	{"/dev/kfd", "autofs"}, {"/dev/dri/renderD128", "cpu_dma_latency"}, {"/dev/dri/card0", "loop-control"},
	{"/dev/dri/renderD129", "vsock"}, {"/dev/dri/card1", "vga_arbiter"},
}

const miscMajor = 10

// minors are the minors of the nodes, by path.
func minors(t *testing.T) map[string]int {
	t.Helper()
	data, err := os.ReadFile("/proc/misc")
	require.NoError(t, err)
	there, found := map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 2 {
			there[f[1]], err = strconv.Atoi(f[0])
			require.NoError(t, err)
		}
	}
	for _, n := range nodes {
		require.Contains(t, there, n.device, "/proc/misc: a device that can stand in for %s", n.path)
		found[n.path] = there[n.device]
	}
	return found
}

// FakeGPUs writes the tree that gpus.sh puts over the host's: the
// fixture host amd-nvidia, which has a Radeon and a GeForce, with the numbers of
// the nodes above.
func FakeGPUs(t *testing.T, dir string) {
	t.Helper()
	sys := filepath.Join(dir, "sys")
	copyTree(t, filepath.Join(hosttest.HostsDir(), "amd-nvidia", "sys"), sys)
	number := minors(t)
	var list strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&list, "%s %d %d\n", n.path, miscMajor, number[n.path])
		if name, ok := strings.CutPrefix(n.path, "/dev/dri/"); ok {
			text := fmt.Sprintf("%d:%d\n", miscMajor, number[n.path])
			require.NoError(t, os.WriteFile(filepath.Join(sys, "class/drm", name, "dev"), []byte(text), 0o644))
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nodes"), []byte(list.String()), 0o644))
	for _, pci := range []string{AMDPCI, NVIDIAPCI} { // what LXD asks for beside what the charm does
		device := filepath.Join(sys, "bus/pci/devices", pci)
		require.NoError(t, os.WriteFile(filepath.Join(device, "numa_node"), []byte("-1\n"), 0o644))
		require.NoError(t, os.Symlink("/sys/bus/pci", filepath.Join(device, "subsystem")))
	}
	// The status names used memory without a process from the second look on.
	require.NoError(t, os.WriteFile(filepath.Join(sys, "bus/pci/devices", AMDPCI, "mem_info_vram_used"), []byte("0\n"), 0o644))
	for _, card := range []string{"card0", "renderD128", "card1", "renderD129"} {
		device := filepath.Join(sys, "class/drm", card, "device")
		if _, err := os.Lstat(device); os.IsNotExist(err) {
			require.NoError(t, os.Symlink("../..", device))
		}
	}
	// KFD knows the GPU by its render node's number.
	properties := filepath.Join(sys, "class/kfd/kfd/topology/nodes/1/properties")
	data, err := os.ReadFile(properties)
	require.NoError(t, err)
	text := strings.Replace(string(data), "drm_render_minor 128\n", fmt.Sprintf("drm_render_minor %d\n", number["/dev/dri/renderD128"]), 1)
	require.NotEqual(t, string(data), text)
	require.NoError(t, os.WriteFile(properties, []byte(text), 0o644))
	// The kernel's list of drivers, with kfd's.
	devices, err := os.ReadFile("/proc/devices")
	require.NoError(t, err)
	text = strings.Replace(string(devices), "Character devices:\n", fmt.Sprintf("Character devices:\n%3d kfd\n", miscMajor), 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "devices"), []byte(text), 0o644))
}

// InUnit has a unit see the host's sysfs, as if the GPUs were the kernel's own. Its
// /sys/class shows the host's network devices in place of the unit's: a unit with a network
// has it at another path, made for it, and mounts.
func InUnit(fake, class string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "lxc.mount.entry = /run/fake/class %s none bind,ro,create=dir 0 0\n", class)
	for _, dir := range []string{"bus", "module", "devices/pci0000:00"} {
		fmt.Fprintf(&b, "lxc.mount.entry = /run/fake/%s sys/%s none bind,ro 0 0\n", dir, dir)
	}
	fmt.Fprintf(&b, "lxc.mount.entry = %s/devices proc/devices none bind,ro 0 0\n", fake)
	return b.String()
}

// copyTree copies folders, files and links, readable by all.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(to, strings.TrimPrefix(path, from))
		switch {
		case e.IsDir():
			return os.MkdirAll(at, 0o755)
		case e.Type() == fs.ModeSymlink:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, at)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(at, data, 0o644)
	}))
}
