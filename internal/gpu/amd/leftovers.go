package amd

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is something that an installation left behind or got wrong, and the
// command that puts it right.
type Problem struct{ What, Fix string }

// Leftovers are what is in the way of an installation and of the driver: halves
// of earlier ones, sources, pins and modules that no package owns any more.
func Leftovers(f DriverFacts) (all []Problem) {
	add := func(what, fix string) { all = append(all, Problem{what, fix}) }
	for _, p := range f.Packages {
		switch {
		case p.Broken():
			add(fmt.Sprintf("%s %s is %s: an earlier installation did not finish", p.Name, p.Version, p.Status),
				"sudo dpkg --configure -a && sudo apt-get install --fix-broken")
		case p.Held:
			add(fmt.Sprintf("%s is held at %s, so that no other version can be installed", p.Name, p.Version), "sudo apt-mark unhold "+p.Name)
		}
	}
	all = append(all, sourceProblems(f.Sources)...)
	for _, p := range f.Pins {
		if p.File != pinFile {
			add(fmt.Sprintf("%s:%d pins %s to %q with priority %s", p.File, p.Line, p.Package, p.Pin, p.Priority), "sudo rm "+p.File)
		}
	}
	if f.Where.Contained() {
		return all // modules are the host's
	}
	for _, b := range f.Blacklists {
		fix := fmt.Sprintf("sudo sed -i '%dd' %s && sudo update-initramfs -u", b.Line, b.File)
		if !strings.HasPrefix(b.File, "/etc/") {
			fix = "take it out of the kernel's command line: sudo editor /etc/default/grub && sudo update-grub"
		}
		add(fmt.Sprintf("%s:%d keeps amdgpu from being loaded: %s", b.File, b.Line, b.Text), fix)
	}
	return append(all, moduleProblems(f)...)
}

// sourceProblems are AMD's repositories that somebody else added: of several
// releases at once, or twice.
func sourceProblems(sources []AptEntry) (all []Problem) {
	first := map[string]AptEntry{} // by the URI without its release
	for _, s := range sources {
		uri := strings.TrimRight(s.URI, "/")
		kind, release := splitRelease(uri)
		was, seen := first[kind]
		if !seen {
			first[kind] = s
			continue
		}
		if ownSource(s.File) {
			s, was = was, s
		}
		if ownSource(s.File) {
			continue
		}
		what := fmt.Sprintf("%s:%d and %s:%d name the same repository", s.File, s.Line, was.File, was.Line)
		if _, other := splitRelease(strings.TrimRight(was.URI, "/")); other != release {
			what = fmt.Sprintf("%s:%d and %s:%d are of two releases: %s and %s", s.File, s.Line, was.File, was.Line, s.URI, was.URI)
		}
		all = append(all, Problem{what, dropSource(s)})
	}
	return all
}

// splitRelease takes the release out of a repository's path:
// https://repo.radeon.com/amdgpu/6.3.2/ubuntu has 6.3.2.
func splitRelease(uri string) (kind, release string) {
	parts := strings.Split(uri, "/")
	for i, p := range parts {
		if p == "latest" || p != "" && strings.Trim(p, "0123456789.") == "" && strings.Contains(p, ".") {
			return strings.Join(slices.Concat(parts[:i], parts[i+1:]), "/"), p
		}
	}
	return uri, ""
}

// dropSource is the command that takes a line out of apt's sources, and a whole
// file of the other format.
func dropSource(s AptEntry) string {
	if strings.HasSuffix(s.File, ".sources") {
		return "sudo rm " + s.File
	}
	return fmt.Sprintf("sudo sed -i '%dd' %s", s.Line, s.File)
}

// moduleProblems are about the module that DKMS built, or did not.
func moduleProblems(f DriverFacts) (all []Problem) {
	i := slices.IndexFunc(f.Packages, func(p Installed) bool { return p.Name == driverPackage && p.Status == "installed" })
	built := slices.IndexFunc(f.Module.Files, func(m ModuleFile) bool { return m.DKMS })
	switch {
	case i >= 0 && built < 0 && !f.Headers.Present:
		all = append(all, Problem{fmt.Sprintf("%s is installed and has no module for kernel %s: its headers are missing", driverPackage, f.Kernel),
			"sudo apt-get install linux-headers-" + f.Kernel + " && sudo dkms autoinstall -k " + f.Kernel})
	case i >= 0 && built < 0:
		all = append(all, Problem{fmt.Sprintf("%s is installed and has no module for kernel %s", driverPackage, f.Kernel),
			"sudo dkms autoinstall -k " + f.Kernel + "; if that fails: less /var/lib/dkms/amdgpu/*/build/make.log"})
	case i < 0 && built >= 0 && !slices.ContainsFunc(f.Packages, func(p Installed) bool { return p.Name == driverPackage }):
		all = append(all, Problem{f.Module.Files[built].Path + " is of no package: an earlier driver left it",
			"sudo dkms status amdgpu, then for its version: sudo dkms remove amdgpu/<version> --all"})
	}
	return all
}
