package amd

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/gpu"
)

// readLimit bounds each read-only command: modinfo and apt-cache answer in
// well under a second.
const readLimit = 10 * time.Second

// ObserveDriver looks at what Decide needs. It reads files, and runs modinfo
// and apt-cache, which change nothing, where their answer matters. What is not
// there is a zero value; an error is a file that is there and can't be read.
func ObserveDriver(ctx context.Context, h host.Host, m Machine) (DriverFacts, error) {
	f := DriverFacts{Machine: m}
	f.Where, f.Hypervisor = where(h.Root, m.Container)
	f.Kernel, _ = h.ReadText("/proc/sys/kernel/osrelease")
	f.BootID, _ = h.ReadText("/proc/sys/kernel/random/boot_id")
	f.Memory, f.CPUs = memory(h.Root), cpus(h.Root)
	var st unix.Statfs_t
	if err := unix.Statfs(h.Path("/"), &st); err != nil {
		return f, fmt.Errorf("cannot observe the disk: %w", err)
	}
	f.Disk = st.Bavail * uint64(st.Bsize)
	var err error
	if f.Packages, err = packages(h.Root); err != nil {
		return f, err
	}
	if f.Sources, err = sources(h.Root); err != nil {
		return f, err
	}
	if f.Pins, err = pins(h.Root); err != nil {
		return f, err
	}
	if f.GPUs, err = pciGPUs(h.Root); err != nil {
		return f, err
	}
	f.Module = loaded(h.Root)
	f.RebootFor = rebootFor(h.Root)
	if f.Where.Contained() {
		return f, nil // the kernel, its modules and their settings are the host's
	}
	f.SecureBoot = secureBoot(h.Root)
	if f.Blacklists, err = blacklists(h.Root); err != nil {
		return f, err
	}
	observeFiles(ctx, h, &f)
	observeHeaders(ctx, h, &f)
	return f, nil
}

// where tells what the machine is. A VM is known by the processor's flag
// hypervisor or by the maker that DMI names.
func where(r host.Root, container string) (Where, string) {
	switch container {
	case "":
	case "lxc":
		return LXD, ""
	default:
		return OtherContainer, ""
	}
	var dmi []string
	for _, name := range []string{"sys_vendor", "product_name"} {
		if text, err := r.ReadText("/sys/class/dmi/id/" + name); err == nil {
			dmi = append(dmi, text)
		}
	}
	what := strings.Join(dmi, " ")
	for _, maker := range []string{"QEMU", "KVM", "VMware", "VirtualBox", "Xen", "Bochs", "Virtual Machine", "OpenStack", "Amazon EC2", "Google Compute Engine"} {
		if strings.Contains(what, maker) && !strings.Contains(what, ".metal") {
			return VM, maker
		}
	}
	data, _ := r.ReadFile("/proc/cpuinfo")
	for line := range bytes.Lines(data) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		if string(bytes.TrimSpace(key)) == "flags" {
			if slices.Contains(strings.Fields(string(value)), "hypervisor") {
				return VM, "hypervisor"
			}
			break // all processors have the same
		}
	}
	return Metal, ""
}

// memory is MemTotal of proc(5)'s meminfo, in bytes.
func memory(r host.Root) uint64 {
	data, _ := r.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			kib, _ := strconv.ParseUint(f[1], 10, 54)
			return kib << 10
		}
	}
	return 0
}

func cpus(r host.Root) (n int) {
	data, _ := r.ReadFile("/proc/cpuinfo")
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte("processor")) {
			n++
		}
	}
	return n
}

// secureBoot reads the EFI variable: four bytes of attributes, then 1 for on
// (UEFI specification, section 3.3).
func secureBoot(r host.Root) bool {
	data, err := r.ReadFile("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c")
	return err == nil && len(data) == 5 && data[4] == 1
}

// rebootFor is what Ubuntu's update-notifier notes: a file that says that a
// reboot is wanted, and one with the packages that want it.
func rebootFor(r host.Root) (names []string) {
	if !r.Exists("/run/reboot-required") {
		return nil
	}
	data, _ := r.ReadFile("/run/reboot-required.pkgs")
	for sc := bufio.NewScanner(bytes.NewReader(data)); sc.Scan(); {
		if name := strings.TrimSpace(sc.Text()); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if names == nil {
		names = []string{""}
	}
	slices.Sort(names)
	return names
}

// pciGPUs are AMD's display controllers and accelerators on the bus, with the
// driver that is bound. A container sees those of its host.
func pciGPUs(r host.Root) (gpus []PCIGPU, err error) {
	dirs, err := r.Glob("/sys/bus/pci/devices/*")
	if err != nil {
		return nil, err
	}
	files := make([]string, len(dirs))
	for i, dir := range dirs {
		files[i] = dir + "/uevent"
	}
	texts := gpu.Attributes(r, files...)
	for _, file := range files {
		g, ok := parseGPU(path.Base(path.Dir(file)), texts[file])
		if driver, _ := r.Readlink(path.Dir(file) + "/driver"); texts[file] == "" && path.Base(driver) == "amdgpu" {
			g.Driver, ok = "amdgpu", true // it hangs, and amdgpu has no device but AMD's GPUs
		}
		if ok {
			gpus = append(gpus, g)
		}
	}
	return gpus, nil
}

// parseGPU reads a PCI device's uevent (pci_uevent in drivers/pci/pci-driver.c):
// "DRIVER=amdgpu", "PCI_CLASS=30000", "PCI_ID=1002:744C".
func parseGPU(pci, uevent string) (g PCIGPU, ok bool) {
	g.PCI = pci
	var class uint64
	amd := false
	for line := range strings.Lines(uevent) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "DRIVER":
			g.Driver = value
		case "PCI_CLASS":
			class, _ = strconv.ParseUint(value, 16, 24)
		case "PCI_ID":
			vendor, device, _ := strings.Cut(value, ":")
			id, err := strconv.ParseUint(device, 16, 16)
			amd = vendor == "1002" && err == nil
			g.Device, g.Family = uint16(id), familyOf(uint16(id))
		}
	}
	return g, amd && (class>>16 == 0x03 || class>>16 == 0x12)
}
