package exporter

import (
	"bufio"
	"bytes"
	"debug/elf"
	"os"
	"path"
	"strings"

	"concourse-ci-machine/internal/exporter/sysfile"
	"concourse-ci-machine/internal/host"
)

// driverMatchState compares the amdgpu module in use with the one on disk that
// modprobe would take. Both are "" where that can't be told.
type driverMatchState struct {
	running, selected string // "dkms" or "kernel"
	same              bool
}

func (m driverMatchState) value() (float64, bool) {
	return oneIf(m.same), m.running != ""
}

// The kinds of module. AMD's package of the driver gives its module a version;
// the kernel's own has none.
const (
	fromDKMS   = "dkms"
	fromKernel = "kernel"
)

// matchDriver reads /sys/module/amdgpu and the modules of the running kernel.
// A container has no modules of its host's kernel, and a driver built into the
// kernel has no file: there is nothing to compare then.
func matchDriver(root host.Root) driverMatchState {
	if !root.Exists("/sys/module/amdgpu") {
		return driverMatchState{}
	}
	release, err := root.ReadText("/proc/sys/kernel/osrelease")
	if err != nil || release == "" || strings.Contains(release, "/") {
		return driverMatchState{}
	}
	dir := path.Join("/lib/modules", release)
	file, ok := selectedModule(root, path.Join(dir, "modules.dep"))
	if !ok {
		return driverMatchState{}
	}
	m := driverMatchState{running: fromKernel, selected: fromKernel}
	if b, err := sysfile.ReadOnce(root.Path("/sys/module/amdgpu/version")); err == nil && sysfile.Clean(b) != "" {
		m.running = fromDKMS
	}
	if !strings.HasPrefix(file, "kernel/") {
		m.selected = fromDKMS // updates/, extra/, weak-updates/: whatever goes before the kernel's own
	}
	m.same = m.running == m.selected
	if b, err := sysfile.ReadOnce(root.Path("/sys/module/amdgpu/srcversion")); err == nil && m.same {
		if on, ok := srcversion(root.Path(path.Join(dir, file))); ok {
			m.same = on == sysfile.Clean(b)
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
