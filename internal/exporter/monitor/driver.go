package monitor

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"path"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// Module compares the loaded amdgpu module with the one on disk that modprobe would load.
// Both names are "" if they cannot be compared.
type Module struct {
	Running, Selected string // "dkms" or "kernel"
	Same              bool
}

// The kinds of module. Only the module of AMD's driver package has a version.
const (
	fromDKMS   = "dkms"
	fromKernel = "kernel"
)

// readModule reads /sys/module/amdgpu and the modules of the running kernel. Nothing can be
// compared in a container, which lacks the modules of its host's kernel, or if the driver
// is built into the kernel.
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
		m.Selected = fromDKMS // updates/, extra/ and weak-updates/ precede the kernel's own modules
	}
	m.Same = m.Running == m.Selected
	if b, err := sysfile.ReadOnce(root.Path("/sys/module/amdgpu/srcversion")); err == nil && m.Same {
		if on, ok := srcversion(root.Path(path.Join(dir, file))); ok {
			m.Same = on == sysfile.Clean(b)
		}
	}
	return m
}

// selectedModule finds amdgpu in modules.dep. depmod lists each module once there: the file
// that its search order prefers.
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

// srcversion reads the checksum of a module's sources. It fails on a compressed file.
func srcversion(name string) (string, bool) {
	f, err := os.Open(name)
	if err != nil {
		return "", false
	}
	defer f.Close()
	for entry := range bytes.SplitSeq(modinfo(f), []byte{0}) {
		if v, ok := bytes.CutPrefix(entry, []byte("srcversion=")); ok {
			return string(v), true
		}
	}
	return "", false
}

// modinfo returns the section .modinfo of a module, nil for another file. elf.Open would add
// the code for compressed sections to the program, 130 KB.
func modinfo(f io.ReaderAt) []byte {
	var h elf.Header64
	if !readELF(f, 0, &h) || !bytes.HasPrefix(h.Ident[:], []byte(elf.ELFMAG)) {
		return nil
	}
	sections := make([]elf.Section64, h.Shnum)
	if !readELF(f, h.Shoff, sections) || int(h.Shstrndx) >= len(sections) {
		return nil
	}
	names := readSection(f, sections[h.Shstrndx])
	for _, s := range sections {
		if int(s.Name) < len(names) && bytes.HasPrefix(names[s.Name:], []byte(".modinfo\x00")) {
			return readSection(f, s)
		}
	}
	return nil
}

func readELF(f io.ReaderAt, offset uint64, to any) bool {
	return binary.Read(io.NewSectionReader(f, int64(offset), 1<<22), binary.LittleEndian, to) == nil
}

func readSection(f io.ReaderAt, s elf.Section64) []byte {
	b := make([]byte, min(s.Size, 1<<20))
	n, _ := f.ReadAt(b, int64(s.Off))
	return b[:n]
}
