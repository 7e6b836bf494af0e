package guest

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// GPUs is the number of a fixture's GPUs that get nodes.
const GPUs = 2

// devices are kernel devices with major 10 that every user with access to their node can
// open, and that runc allows to no container by default. One that opens was passed on.
var devices = []string{"autofs", "loop-control", "cpu_dma_latency", "userfaultfd", "vga_arbiter", "vsock",
	"btrfs-control", "udmabuf"}

// Nodes returns the nodes of a fixture's first GPUs: /dev/kfd first, then render node and
// card of each.
func Nodes(root host.Root) (nodes []string) {
	if !root.Exists("/dev/kfd") {
		return nil // the fixture of a machine without a GPU
	}
	nodes = []string{"/dev/kfd"}
	for i := range GPUs {
		render := fmt.Sprintf("renderD%d", 128+i)
		found, _ := root.Glob("/sys/bus/pci/drivers/amdgpu/*/drm/" + render)
		if len(found) != 1 {
			continue // it has no more, or another vendor's
		}
		if cards, _ := root.Glob(path.Dir(found[0]) + "/card*"); len(cards) == 1 {
			nodes = append(nodes, "/dev/dri/"+render, "/dev/dri/"+path.Base(cards[0]))
		}
	}
	return nodes
}

// StandIns gives a fixture's first AMD GPUs the numbers of devices of this kernel, because
// the numbers of the GPUs have no driver here.
func StandIns(root host.Root) error {
	nodes := Nodes(root)
	if len(nodes) == 0 {
		return nil
	}
	free, err := minors()
	if err != nil {
		return err
	}
	if len(free) < len(nodes) {
		return fmt.Errorf("cannot replace %d nodes of GPUs: /proc/misc has only %d of %s", len(nodes), len(free),
			strings.Join(devices, ", "))
	}
	for i, node := range nodes {
		number := "10:" + free[i]
		err := root.WriteFile(node, []byte(number+" 0660 0 44\n"), 0o644)
		if i > 0 { // sysfs has a file with the number too
			dev := path.Join("/sys/class/drm", path.Base(node), "dev")
			err = errors.Join(err, root.WriteFile(dev, []byte(number+"\n"), 0o644))
		}
		if err != nil {
			return err
		}
	}
	if err := replace(root, "/proc/devices", "235 kfd", " 10 kfd"); err != nil {
		return err
	}
	for i, node := range nodes {
		if minor, is := strings.CutPrefix(node, "/dev/dri/renderD"); is {
			if err := renumber(root, minor, free[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// minors returns the minor numbers of the devices that this kernel has.
func minors() (free []string, err error) {
	text, err := os.ReadFile("/proc/misc")
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 {
			all[f[1]] = f[0]
		}
	}
	for _, name := range devices {
		if m, ok := all[name]; ok {
			free = append(free, m)
		}
	}
	return free, nil
}

// renumber changes the minor number of a GPU in the topology of the driver.
func renumber(root host.Root, minor, to string) error {
	node, err := topologyNode(root, minor)
	if err != nil || node == "" {
		return err
	}
	return replace(root, node+"/properties", "drm_render_minor "+minor, "drm_render_minor "+to)
}

// topologyNode returns the folder of a GPU in the topology of the driver, or "".
func topologyNode(root host.Root, minor string) (string, error) {
	nodes, err := root.Glob("/sys/class/kfd/kfd/topology/nodes/*")
	if err != nil {
		return "", err
	}
	for _, node := range nodes {
		text, err := root.ReadText(node + "/properties")
		if err != nil {
			return "", err
		}
		if strings.Contains(text+"\n", "drm_render_minor "+minor+"\n") {
			return node, nil
		}
	}
	return "", nil
}

func replace(root host.Root, file, old, by string) error {
	text, err := root.ReadFile(file)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), old) {
		return fmt.Errorf("cannot change %s of the fixture: it has no %q", file, old)
	}
	return root.WriteFile(file, []byte(strings.Replace(string(text), old, by, 1)), 0o644)
}

// RemoveFurtherGPUs removes the fixture's GPUs that get no nodes.
func RemoveFurtherGPUs(root host.Root) error {
	kept := Nodes(root)
	found, err := root.Glob("/sys/bus/pci/drivers/amdgpu/*/drm/renderD*")
	if err != nil {
		return err
	}
	for _, at := range found {
		if !slices.Contains(kept, "/dev/dri/"+path.Base(at)) {
			if err := removeGPU(root, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeGPU removes the GPU with the folder at of its render node.
func removeGPU(root host.Root, at string) error {
	names, err := root.ReadDir(path.Dir(at))
	if err != nil {
		return err
	}
	device := path.Dir(path.Dir(at))
	all := []string{device, "/sys/bus/pci/devices/" + path.Base(device)}
	for _, name := range names {
		all = append(all, "/sys/class/drm/"+name.Name(), "/dev/dri/"+name.Name())
	}
	node, err := topologyNode(root, strings.TrimPrefix(path.Base(at), "renderD"))
	if err != nil {
		return err
	}
	if node != "" {
		all = append(all, node)
	}
	for _, p := range all {
		err = errors.Join(err, os.RemoveAll(root.Path(p)))
	}
	return err
}
