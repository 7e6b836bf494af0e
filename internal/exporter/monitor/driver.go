package monitor

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/elf"
	"os"
	"path"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd/amdgpu"
	"concourse-ci-machine/internal/gpu/nvidia/nvidiagpu"
	"concourse-ci-machine/internal/gpu/sysfile"
)

// Module compares the amdgpu module in use with the one on disk that modprobe would
// take. Both are "" where that can't be told.
type Module struct {
	Running, Selected string // "dkms" or "kernel"
	Same              bool
}

// The kinds of module. AMD's package of the driver gives its module a version;
// the kernel's own has none.
const (
	fromDKMS   = "dkms"
	fromKernel = "kernel"
)

// readModule reads /sys/module/amdgpu and the modules of the running kernel.
// A container has no modules of its host's kernel, and a driver built into the
// kernel has no file: there is nothing to compare then.
func readModule(root host.Root) Module {
	if !root.Exists("/sys/module/amdgpu") {
		return Module{}
	}
	release, err := root.ReadText("/proc/sys/kernel/osrelease")
	if err != nil || release == "" || strings.Contains(release, "/") {
		return Module{}
	}
	dir := path.Join("/lib/modules", release)
	file, ok := selectedModule(root, path.Join(dir, "modules.dep"))
	if !ok {
		return Module{}
	}
	m := Module{Running: fromKernel, Selected: fromKernel}
	if b, err := sysfile.ReadOnce(root.Path("/sys/module/amdgpu/version")); err == nil && sysfile.Clean(b) != "" {
		m.Running = fromDKMS
	}
	if !strings.HasPrefix(file, "kernel/") {
		m.Selected = fromDKMS // updates/, extra/, weak-updates/: whatever goes before the kernel's own
	}
	m.Same = m.Running == m.Selected
	if b, err := sysfile.ReadOnce(root.Path("/sys/module/amdgpu/srcversion")); err == nil && m.Same {
		if on, ok := srcversion(root.Path(path.Join(dir, file))); ok {
			m.Same = on == sysfile.Clean(b)
		}
	}
	return m
}

// selectedModule finds amdgpu in modules.dep, where depmod lists each module
// once: the file that its search order prefers.
func selectedModule(root host.Root, file string) (string, bool) {
	f, err := os.Open(root.Path(file))
	if err != nil {
		return "", false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, _, ok := strings.Cut(lines.Text(), ":")
		if base := path.Base(name); ok && (base == "amdgpu.ko" || strings.HasPrefix(base, "amdgpu.ko.")) {
			return name, !strings.HasPrefix(name, "/") && !strings.Contains(name, "..")
		}
	}
	return "", false
}

// srcversion reads a module's checksum of its sources, if the file is not
// compressed.
func srcversion(name string) (string, bool) {
	f, err := elf.Open(name)
	if err != nil {
		return "", false
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil || section.Size > 1<<20 {
		return "", false
	}
	b, err := section.Data()
	if err != nil {
		return "", false
	}
	for entry := range bytes.SplitSeq(b, []byte{0}) {
		if v, ok := bytes.CutPrefix(entry, []byte("srcversion=")); ok {
			return string(v), true
		}
	}
	return "", false
}

// driverVersions are those of the drivers of the devices.
func driverVersions(r host.Root, devices []amdgpu.Device) map[gpu.Vendor]string {
	out := map[gpu.Vendor]string{}
	for _, d := range devices {
		if _, known := out[d.Vendor]; !known && d.Vendor == gpu.NVIDIA {
			out[d.Vendor] = cmp.Or(nvidiagpu.DriverVersion(r), kernelRelease(r))
		} else if !known {
			out[d.Vendor] = driverVersion(r)
		}
	}
	return out
}

// driverVersion is the version of AMD's own driver module where that is
// loaded, else the kernel's release, whose driver then is in use.
func driverVersion(r host.Root) string {
	b, _ := sysfile.ReadOnce(r.Path("/sys/module/amdgpu/version"))
	return cmp.Or(sysfile.Clean(b), kernelRelease(r))
}

func kernelRelease(r host.Root) string {
	b, _ := sysfile.ReadOnce(r.Path("/proc/sys/kernel/osrelease"))
	return sysfile.Clean(b)
}
