package amd

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"concourse-ci-machine/internal/base/host"
)

// loaded is the running module. The kernel's own has no version; AMD's has
// (modinfo of amdgpu-dkms), and /sys/module shows what the module declares.
func loaded(r host.Root) (m Module) {
	m.Loaded = r.Exists("/sys/module/amdgpu")
	m.Version, _ = r.ReadText("/sys/module/amdgpu/version")
	m.SrcVersion, _ = r.ReadText("/sys/module/amdgpu/srcversion")
	return m
}

// observeFiles finds the modules on disk for the running kernel, and asks the
// selected one for its versions.
func observeFiles(ctx context.Context, h host.Host, f *DriverFacts) {
	if f.Kernel == "" {
		return
	}
	base := "/lib/modules/" + f.Kernel + "/"
	deps, _ := h.ReadFile(base + "modules.dep")
	if rel := selected(deps); rel != "" {
		f.Module.Selected = base + rel
	}
	// Where amdgpu-dkms, hand-built and the kernel's own modules lie.
	for _, dir := range []string{"updates/dkms", "updates", "extra", "kernel/drivers/gpu/drm/amd/amdgpu"} {
		found, _ := h.Glob(base + dir + "/amdgpu.ko*")
		for _, p := range found {
			f.Module.Files = append(f.Module.Files, ModuleFile{Path: p, DKMS: !strings.HasPrefix(dir, "kernel/")})
		}
	}
	i := slices.IndexFunc(f.Module.Files, func(m ModuleFile) bool { return m.Path == f.Module.Selected })
	if i < 0 {
		f.Module.Selected = "" // depmod has not run since it went
		return
	}
	if len(f.GPUs) == 0 {
		return
	}
	out, err := h.Run(ctx, host.Command{Argv: []string{"modinfo", h.Path(f.Module.Selected)}, Deadline: readLimit, ReadOnly: true})
	if err != nil {
		return // without kmod, or with a file that is no module, there is nothing to compare
	}
	f.Module.Files[i].Version, f.Module.Files[i].SrcVersion = modinfo(out)
}

// selected is the file of amdgpu in modules.dep(5), relative to its folder. Of
// several modules of one name depmod lists the one that modprobe takes: those
// in updates before the kernel's own, as depmod.d(5) says.
func selected(deps []byte) string {
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

// observeHeaders asks apt only where the answer decides whether a driver can
// be built.
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
	out, err := h.Run(ctx, host.Command{Argv: []string{"apt-cache", "policy", f.Headers.Package}, Env: []string{"LC_ALL=C.UTF-8"}, Deadline: readLimit, ReadOnly: true})
	if err != nil {
		return
	}
	f.Headers.Asked, f.Headers.Candidate = true, candidate(out)
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

// modprobeDirs are those of modprobe.d(5): a file hides those of the same name
// in later folders.
var modprobeDirs = []string{"/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"}

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
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // a link to nowhere masks a file
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
		case "nomodeset": // amdgpu refuses to drive anything then
			found = append(found, Blacklist{"/proc/cmdline", 1, word})
		}
	}
	return found, nil
}

// blacklistLines finds "blacklist amdgpu", and "install amdgpu" with a command
// that loads nothing.
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
