package amd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// readLimit bounds each read-only command. modinfo and apt-cache answer in less than a
// second, but need over 10 s at a load of 15 per core. Without their answer the next hook
// would decide differently.
const readLimit = time.Minute

// ObserveDriver collects the facts for Decide. It reads files, and runs modinfo and
// apt-cache if their answer is needed. A missing file leaves a zero value; an unreadable
// file is an error.
func ObserveDriver(ctx context.Context, h host.Host, m Machine) (DriverFacts, error) {
	f := DriverFacts{Machine: m}
	f.Kernel, _ = h.ReadText("/proc/sys/kernel/osrelease")
	f.Kind, f.Hypervisor = machineKind(h.Root, m.Container)
	if !f.Kind.Contained() && strings.HasSuffix(f.Kernel, wsl2) {
		f.Kind, f.Hypervisor = VM, wsl2
	}
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
	if err := describeGPUs(h.Root, f.GPUs); err != nil {
		return f, err
	}
	f.Module = loadedModule(h.Root)
	f.RebootFor = rebootFor(h.Root)
	if f.Kind.Contained() {
		return f, nil // the kernel and its modules belong to the host
	}
	f.SecureBoot = secureBoot(h.Root)
	if f.Blacklists, err = blacklists(h.Root); err != nil {
		return f, err
	}
	observeFiles(ctx, h, &f)
	observeHeaders(ctx, h, &f)
	return f, nil
}

// wsl2 ends the release of the kernel that Windows runs beside its own.
const wsl2 = "WSL2"

// machineKind detects the kind of machine. A VM has the processor flag hypervisor or a
// known vendor in DMI.
func machineKind(r host.Root, container string) (MachineKind, string) {
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
	for _, maker := range []string{"QEMU", "KVM", "VMware", "VirtualBox", "Xen", "Bochs", "Virtual Machine",
		"OpenStack", "Amazon EC2", "Google Compute Engine"} {
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
			break // all processors have the same flags
		}
	}
	return Metal, ""
}

// memory returns MemTotal of proc(5)'s meminfo, in bytes.
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

// rebootFor returns the packages that require a reboot, as Ubuntu's update-notifier records
// them in two files: the request, and the list of packages.
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

// pciGPUs returns AMD's display controllers and accelerators on the bus with their drivers.
// A container sees the GPUs of its host. Only address, device id and driver are set.
func pciGPUs(r host.Root) (gpus []gpu.GPU, err error) {
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
			g.Driver, ok = "amdgpu", true // it hangs, and amdgpu drives only AMD's GPUs
		}
		if ok {
			gpus = append(gpus, g)
		}
	}
	return gpus, nil
}

// parseGPU reads a PCI device's uevent (pci_uevent in drivers/pci/pci-driver.c):
// "DRIVER=amdgpu", "PCI_CLASS=30000", "PCI_ID=1002:744C".
func parseGPU(pci, uevent string) (g gpu.GPU, ok bool) {
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
			g.DeviceID = uint16(id)
		}
	}
	return g, amd && (class>>16 == 0x03 || class>>16 == 0x12)
}

// loadedModule returns the running module. Only AMD's module has a version (modinfo of
// amdgpu-dkms), and /sys/module shows the version that a module declares.
func loadedModule(r host.Root) (m Module) {
	m.Loaded = r.Exists("/sys/module/amdgpu")
	m.Version, _ = r.ReadText("/sys/module/amdgpu/version")
	m.SrcVersion, _ = r.ReadText("/sys/module/amdgpu/srcversion")
	return m
}

// observeFiles finds the modules on disk for the running kernel, and reads the versions of
// the selected one.
func observeFiles(ctx context.Context, h host.Host, f *DriverFacts) {
	if f.Kernel == "" {
		return
	}
	base := "/lib/modules/" + f.Kernel + "/"
	deps, _ := h.ReadFile(base + "modules.dep")
	if rel := selectedModule(deps); rel != "" {
		f.Module.Selected = base + rel
	}
	// The folders of amdgpu-dkms, of hand-built modules and of the kernel's own modules.
	for _, dir := range []string{"updates/dkms", "updates", "extra", "kernel/drivers/gpu/drm/amd/amdgpu"} {
		found, _ := h.Glob(base + dir + "/amdgpu.ko*")
		for _, p := range found {
			f.Module.Files = append(f.Module.Files, ModuleFile{Path: p, DKMS: !strings.HasPrefix(dir, "kernel/")})
		}
	}
	i := slices.IndexFunc(f.Module.Files, func(m ModuleFile) bool { return m.Path == f.Module.Selected })
	if i < 0 {
		f.Module.Selected = "" // removed since depmod ran
		return
	}
	if len(f.GPUs) == 0 {
		return
	}
	out, err := h.Run(ctx, host.Command{Argv: []string{"modinfo", h.Path(f.Module.Selected)}, Deadline: readLimit,
		ReadOnly: true})
	if err != nil {
		return // without kmod, or if the file is not a module, nothing can be compared
	}
	f.Module.Files[i].Version, f.Module.Files[i].SrcVersion = modinfo(out)
}

// selectedModule returns the file of amdgpu in modules.dep(5), relative to its folder.
// depmod lists only the module that modprobe loads: updates precede the kernel's own
// modules, see depmod.d(5).
func selectedModule(deps []byte) string {
	for line := range bytes.Lines(deps) {
		file, _, ok := bytes.Cut(line, []byte(":"))
		if name := path.Base(string(file)); ok && (name == "amdgpu.ko" || strings.HasPrefix(name, "amdgpu.ko.")) {
			return string(file)
		}
	}
	return ""
}

// modinfo reads "field:   value" lines.
func modinfo(out []byte) (version, srcversion string) {
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "version":
			version = strings.TrimSpace(value)
		case "srcversion":
			srcversion = strings.TrimSpace(value)
		}
	}
	return version, srcversion
}

// observeHeaders queries apt only if a driver must be built.
func observeHeaders(ctx context.Context, h host.Host, f *DriverFacts) {
	if f.Kernel == "" {
		return
	}
	f.Headers.Package = "linux-headers-" + f.Kernel
	f.Headers.Present = h.Exists("/lib/modules/" + f.Kernel + "/build/Makefile")
	free, _, _ := f.split()
	if f.Headers.Present || len(free) == 0 {
		return
	}
	out, err := h.Run(ctx, host.Command{Argv: []string{"apt-cache", "policy", f.Headers.Package},
		Env: []string{"LC_ALL=C.UTF-8"}, Deadline: readLimit, ReadOnly: true})
	if err != nil {
		return
	}
	f.Headers.Queried, f.Headers.Candidate = true, candidate(out)
}

// candidate reads apt-cache policy, which prints nothing for an unknown package.
func candidate(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "Candidate: "); ok && v != "(none)" {
			return v
		}
	}
	return ""
}

// modprobeDirs lists the folders of modprobe.d(5). A file hides files of the same name in
// later folders.
var modprobeDirs = []string{"/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d",
	"/lib/modprobe.d"}

func blacklists(r host.Root) (found []Blacklist, err error) {
	seen := map[string]bool{}
	for _, dir := range modprobeDirs {
		entries, err := r.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".conf") || seen[e.Name()] {
				continue
			}
			seen[e.Name()] = true
			data, err := r.ReadFile(path.Join(dir, e.Name()))
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // a dangling link masks a file
				return nil, err
			}
			found = append(found, blacklistLines(path.Join(dir, e.Name()), data)...)
		}
	}
	cmdline, _ := r.ReadText("/proc/cmdline")
	for _, word := range strings.Fields(cmdline) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "modprobe.blacklist", "module_blacklist":
			if slices.Contains(strings.Split(value, ","), "amdgpu") {
				found = append(found, Blacklist{"/proc/cmdline", 1, word})
			}
		case "nomodeset": // amdgpu then drives no device
			found = append(found, Blacklist{"/proc/cmdline", 1, word})
		}
	}
	return found, nil
}

// blacklistLines finds "blacklist amdgpu", and "install amdgpu" with a command that loads
// nothing.
func blacklistLines(file string, data []byte) (found []Blacklist) {
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		f := strings.Fields(line)
		if len(f) < 2 || f[1] != "amdgpu" {
			continue
		}
		off := f[0] == "install" && len(f) == 3 && slices.Contains([]string{"true", "false"}, path.Base(f[2]))
		if f[0] == "blacklist" || off {
			found = append(found, Blacklist{file, number, strings.TrimSpace(line)})
		}
	}
	return found
}
