package guest

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"concourse-ci-machine/internal/base/host"
)

// GPUs is the number of a fixture's GPUs that get nodes.
const GPUs = 2

// devices are kernel devices with major 10 that every user with access to their node can
// open, and that runc allows to no container by default. One that opens was passed on.
var devices = []string{"autofs", "loop-control", "cpu_dma_latency", "userfaultfd", "vga_arbiter", "vsock", "btrfs-control",
	"udmabuf"}

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
			err = errors.Join(err, root.WriteFile(path.Join("/sys/class/drm", path.Base(node), "dev"), []byte(number+"\n"),
				0o644))
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
	properties, err := root.Glob("/sys/class/kfd/kfd/topology/nodes/*/properties")
	if err != nil {
		return err
	}
	for _, file := range properties {
		text, err := root.ReadText(file)
		if err != nil {
			return err
		}
		if strings.Contains(text+"\n", "drm_render_minor "+minor+"\n") {
			return replace(root, file, "drm_render_minor "+minor, "drm_render_minor "+to)
		}
	}
	return nil
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
	renders, err := root.Glob("/sys/bus/pci/drivers/amdgpu/*/drm/renderD*")
	if err != nil {
		return err
	}
	for _, at := range renders {
		render := path.Base(at)
		if strings.Contains(strings.Join(kept, " ")+" ", "/"+render+" ") {
			continue
		}
		address := path.Base(path.Dir(path.Dir(at)))
		gone, err := root.Glob("/sys/bus/pci/*/" + address)
		if err != nil {
			return err
		}
		gone = append(gone, "/sys/bus/pci/drivers/amdgpu/"+address)
		cards, err := root.Glob(path.Dir(at) + "/card*")
		if err != nil {
			return err
		}
		for _, name := range append(cards, render) {
			gone = append(gone, "/sys/class/drm/"+path.Base(name), "/dev/dri/"+path.Base(name))
		}
		properties, err := root.Glob("/sys/class/kfd/kfd/topology/nodes/*/properties")
		if err != nil {
			return err
		}
		for _, file := range properties {
			text, err := root.ReadText(file)
			if err != nil {
				return err
			}
			if strings.Contains(text+"\n", "drm_render_minor "+strings.TrimPrefix(render, "renderD")+"\n") {
				gone = append(gone, path.Dir(file))
			}
		}
		for _, p := range gone {
			if err := os.RemoveAll(root.Path(p)); err != nil {
				return err
			}
		}
	}
	return nil
}
