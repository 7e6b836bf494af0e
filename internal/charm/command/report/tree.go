package report

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// Machine names the part of the tree that belongs to no single GPU.
const Machine = "machine"

// maxFile bounds a file. A sysfs attribute ends at a page, and a description of GPUs for
// containers has some KiB.
const maxFile = 64 << 10

// ofMachine lists the files that describe a machine with AMD GPUs. None has a secret: the list
// leaves out the kernel's command line, the host name and configuration files.
var ofMachine = []string{
	"/etc/os-release", "/etc/cdi/amd.json", "/run/systemd/container",
	"/proc/devices", "/proc/meminfo", "/proc/sys/kernel/osrelease",
	"/dev/kfd", "/dev/dri/card*", "/dev/dri/renderD*",
	"/sys/module/amdgpu/version", "/sys/module/amdgpu/srcversion",
	"/sys/module/amdgpu/drivers/*", "/sys/module/amdgpu/parameters/*", "/sys/module/nvidia/version",
	"/dev/nvidia*", "/proc/driver/nvidia/version", "/proc/driver/nvidia/gpus/*/information",
	"/sys/class/drm/*", "/sys/class/drm/*/dev", "/sys/class/drm/*/device", "/sys/class/devcoredump/*/failing_device",
	"/sys/class/kfd/kfd/topology/system_properties", "/sys/class/kfd/kfd/topology/nodes/*/gpu_id",
	"/sys/class/kfd/kfd/topology/nodes/*/name", "/sys/class/kfd/kfd/topology/nodes/*/properties",
	"/sys/class/kfd/kfd/topology/nodes/*/*/*/properties",
	"/sys/devices/platform/amdgpu_xcp_*/uevent", "/sys/devices/platform/amdgpu_xcp_*/xcp/*",
}

// ofDevice lists the attributes that the kernel has for each PCI device.
var ofDevice = []string{"class", "vendor", "device", "revision", "uevent", "driver", "*_link_*", "numa_node"}

// ofGPU lists attributes of the driver amdgpu below a GPU's folder in sysfs. Reading them changes
// nothing. The list leaves out pcie_bw, which restarts counters, and serial_number.
var ofGPU = []string{
	"product_name", "product_number", "unique_id", "vbios_version", "subsystem_*", "local_cpulist",
	"*_busy_percent", "mem_info_*", "gpu_metrics", "pp_dpm_*", "pp_features", "pp_power_profile_mode",
	"power_dpm_force_performance_level", "pcie_replay_count", "thermal_throttling_logging",
	"*_compute_partition", "*_memory_partition", "xgmi_*", "power/runtime_status", "power/control",
	"hwmon/hwmon*/*_*", "hwmon/hwmon*/name", "hwmon/hwmon*/pwm*", "ras/*", "fw_version/*", "xgmi_hive_info/*", "xcp/*",
	"drm/*/dev", "drm/*/device", "drm/card*/card*/status",
}

// Parts returns the names of the parts of this machine's tree: Machine, and the address of
// each AMD GPU, so that a GPU that hangs hides no other. With an error the GPUs are missing.
func Parts(r host.Root) ([]string, error) {
	inv, err := gpu.Discover(r)
	parts, vendor := []string{Machine}, gpu.VendorWith(gpu.Quarantine)
	for _, g := range slices.Concat(inv.GPUsOf(vendor), inv.Unusable) {
		if g.Vendor == vendor && !slices.Contains(parts, g.PCI) {
			parts = append(parts, g.PCI)
		}
	}
	return parts, err
}

// WriteTree writes the first of the parts as a tar archive with links: files that the
// programs read. Below another root they are a fixture: CHARM_ROOT=tree gpukit gpu list.
// Machine leaves out the files of the other parts, because a GPU that hangs may hang the
// reader. Files that cannot be read are left out,
// each with a line in the file Unread of the part.
func WriteTree(r host.Root, parts []string, w io.Writer) error {
	patterns, part := slices.Clone(ofMachine), parts[0]
	devices, attributes := []string{part}, slices.Concat(ofDevice, ofGPU)
	if part == Machine {
		found, err := r.ReadDir(pciDevices)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		devices, attributes = nil, ofDevice
		for _, d := range found {
			if !slices.Contains(parts, d.Name()) {
				devices = append(devices, d.Name())
			}
		}
	} else if patterns = nil; strings.ContainsAny(part, "/*?[\\") || !r.Exists(pciDevices+part) {
		return fmt.Errorf("cannot read the files of %q: want the PCI address of a GPU", part)
	}
	for _, d := range devices {
		for _, a := range attributes {
			patterns = append(patterns, pciDevices+d+"/"+a)
		}
	}
	t := tree{root: r, out: tar.NewWriter(w), written: map[string]bool{}, others: parts[1:]}
	for _, pattern := range patterns {
		found, err := r.Glob(pattern)
		if err != nil {
			return err
		}
		for _, p := range found {
			if err := t.add(p); err != nil {
				return err
			}
		}
	}
	if len(t.unread) > 0 {
		text := strings.Join(t.unread, "\n") + "\n"
		if err := t.write(tar.Header{Name: Unread + part, Mode: 0o644, Size: int64(len(text))}, text); err != nil {
			return err
		}
	}
	return t.out.Close()
}

const pciDevices = "/sys/bus/pci/devices/"

// Unread begins the name of the file of a part that lists what could not be read.
const Unread = "unread-"

// tree writes paths of a machine into an archive.
type tree struct {
	root    host.Root
	out     *tar.Writer
	written map[string]bool
	others  []string // devices with files that are not read
	unread  []string
}

// maxLinks bounds the links of a path, as the kernel does.
const maxLinks = 40

// add writes the file at p, and the links on the way to it. A link at its end is written
// without its target, unless the target is a file.
func (t *tree) add(p string) error {
	for range maxLinks {
		link, rest, err := t.firstLink(p)
		if err != nil {
			t.unread = append(t.unread, err.Error())
			return nil
		}
		if link == "" {
			return t.addFile(p)
		}
		to, err := t.root.Readlink(link)
		if err != nil {
			t.unread = append(t.unread, err.Error())
			return nil
		}
		h := tar.Header{Name: link, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}
		if err := t.write(h, ""); err != nil {
			return err
		}
		if !path.IsAbs(to) {
			to = path.Join(path.Dir(link), to)
		}
		p = path.Join(to, rest)
	}
	t.unread = append(t.unread, p+": too many links")
	return nil
}

// firstLink returns the first part of p that is a link, and what follows.
func (t *tree) firstLink(p string) (link, rest string, err error) {
	for at := 1; at <= len(p); at++ {
		if at < len(p) && p[at] != '/' {
			continue
		}
		st, err := t.root.Lstat(p[:at])
		if err != nil {
			return "", "", err
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			return p[:at], strings.TrimPrefix(p[at:], "/"), nil
		}
	}
	return "", "", nil
}

// addFile writes a regular file, or a line with the number, mode and owner of a device node.
func (t *tree) addFile(p string) error {
	isOther := func(folder string) bool { return slices.Contains(t.others, folder) }
	if t.written[p] || slices.ContainsFunc(strings.Split(p, "/"), isOther) {
		return nil
	}
	var text string
	node, err := t.root.Node(p)
	switch {
	case strings.HasPrefix(p, "/dev/") && err == nil && node.Any:
	case strings.HasPrefix(p, "/dev/") && err == nil:
		text = fmt.Sprintf("%s %#o %d %d\n", node.Number(), node.Mode, node.UID, node.GID)
	default:
		text, err = t.read(p)
	}
	if errors.Is(err, unix.EISDIR) {
		return nil
	}
	if err != nil {
		t.unread = append(t.unread, err.Error())
		return nil
	}
	return t.write(tar.Header{Name: p, Mode: 0o644, Size: int64(len(text))}, text)
}

func (t *tree) read(p string) (string, error) {
	f, err := os.OpenFile(t.root.Path(p), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	return string(text), err
}

// write writes an entry once.
func (t *tree) write(h tar.Header, text string) error {
	if t.written[h.Name] {
		return nil
	}
	t.written[h.Name] = true
	h.Name, h.Format = strings.TrimPrefix(h.Name, "/"), tar.FormatPAX
	if err := t.out.WriteHeader(&h); err != nil {
		return fmt.Errorf("cannot write %s: %w", h.Name, err)
	}
	_, err := io.WriteString(t.out, text)
	return err
}
