//go:build e2e

package scripts

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/lxdhost"
)

// threeCards is the tree of a host with a GeForce and two Radeons, in the order in
// which LXD numbers them, and with kfd.
func threeCards(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	sys := filepath.Join(dir, "sys")
	for _, d := range []string{"class/drm", "bus/pci/devices", "module", "devices/pci0000:00"} {
		require.NoError(t, os.MkdirAll(filepath.Join(sys, d), 0o755))
	}
	write := func(path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	link := func(to, path string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.Symlink(to, path))
	}
	nodes := "/dev/kfd 1 3\n" // null's numbers: every kernel has a driver for them
	for number, card := range []struct{ pci, vendor, driver string }{
		{"0000:0a:00.0", "10de", "nouveau"}, {"0000:03:00.0", "1002", "amdgpu"}, {"0000:83:00.0", "1002", "amdgpu"},
	} {
		device := "/sys/devices/pci0000:00/" + card.pci
		write(sys+device[4:]+"/vendor", "0x"+card.vendor+"\n")
		write(sys+device[4:]+"/device", "0x74a1\n")
		write(sys+device[4:]+"/numa_node", "-1\n")
		require.NoError(t, os.MkdirAll(sys+"/bus/pci/drivers/"+card.driver, 0o755))
		link("/sys/bus/pci/drivers/"+card.driver, sys+device[4:]+"/driver")
		link("/sys/bus/pci", sys+device[4:]+"/subsystem")
		link(device, sys+"/bus/pci/devices/"+card.pci)
		for name, minor := range map[string]int{fmt.Sprintf("card%d", number): number, fmt.Sprintf("renderD%d", 128+number): 128 + number} {
			write(sys+device[4:]+"/drm/"+name+"/dev", fmt.Sprintf("226:%d\n", minor))
			link(device, sys+device[4:]+"/drm/"+name+"/device")
			link(device+"/drm/"+name, sys+"/class/drm/"+name)
			nodes += fmt.Sprintf("/dev/dri/%s 226 %d\n", name, minor)
		}
	}
	write(dir+"/nodes", nodes)
	return dir
}

// launch makes a container of busybox and an init that waits.
func launch(h *lxdhost.Host, name string) {
	h.T.Helper()
	lxdhost.TinyImage(h.T, h.Dir+"/image.tar")
	h.Run("config: {}\nstorage_pools: [{name: default, driver: dir}]\nprofiles: [{name: default, devices: {root: {type: disk, path: /, pool: default}}}]\n", "lxd", "init", "--preseed")
	h.Run("", "lxc", "image", "import", h.Dir+"/image.tar", "--alias", "tiny")
	h.Run("", "lxc", "launch", "-q", "tiny", name)
}
