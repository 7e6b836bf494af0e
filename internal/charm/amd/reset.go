package amd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
)

const purgeLimit = 30 * time.Minute

// ResetPlan removes all of AMD's software from a machine, including foreign installations:
// packages, repositories, pins and modules. The next hook then starts from nothing. In a
// container the kernel's part stays, because it belongs to the host. The plan is
// destructive; the action reset-rocm shows it, and applies it only on confirmation.
func ResetPlan(f DriverFacts) []plan.Resource {
	const why = "reset-rocm removes all of AMD's software"
	var all []plan.Resource
	if names := resetPackages(f); len(names) > 0 {
		all = append(all, purge{names: names, why: why})
	}
	for _, s := range f.Sources {
		all = append(all, dropEntry{file: s.File, uri: s.URI, why: why})
	}
	for _, p := range f.Pins {
		if strings.HasPrefix(p.File, "/etc/apt/preferences.d/") {
			all = append(all, resource.Absent{Path: p.File, Why: why})
		}
	}
	all = append(all, resource.AllAbsent(why, pinFile, installFile, verifiedStamp, RebootFile, attemptPath)...)
	if f.Kind.Contained() {
		return all
	}
	return append(all, orphan{kernel: f.Kernel, why: why})
}

// resetPackages returns AMD's packages, the driver's last, after its dependents. A
// container needs no driver and may lose its package too.
func resetPackages(f DriverFacts) (names []string) {
	for _, p := range f.Packages {
		if p.Name != ToolkitPackage { // the option amd-container-toolkit decides on it
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// purge removes packages with their configuration. Half-installed ones are removed by force
// first, because apt refuses to work with them.
type purge struct {
	names []string
	why   string
}

// Diff implements plan.Resource.
func (p purge) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	var there, stuck []string
	for _, name := range p.names {
		st, err := resource.ReadPackage(h.Root, name)
		if err != nil {
			return nil, err
		}
		if st.Installed() || st.Broken() {
			there = append(there, name)
		}
		if st.Reinst || st.Status == "half-installed" {
			stuck = append(stuck, name)
		}
	}
	var steps plan.Plan
	env := []string{"DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_MODE=l", "LC_ALL=C.UTF-8"}
	run := func(argv ...string) func(context.Context, host.Host) error {
		return func(ctx context.Context, h host.Host) error {
			_, err := h.Run(ctx, host.Command{Argv: argv, Env: env, Deadline: purgeLimit})
			return err
		}
	}
	if len(stuck) > 0 {
		do := run(append([]string{"dpkg", "--remove", "--force-remove-reinstreq", "--force-depends"}, stuck...)...)
		steps = append(steps, plan.Step{Op: "remove " + strings.Join(stuck, ", "),
			Why: "half installed: apt can't remove it",
			Do:  func(ctx context.Context) error { return do(ctx, h) }})
	}
	if len(there) > 0 {
		do := run(append([]string{"apt-get", "purge", "--yes", "--allow-change-held-packages",
			"-o", "DPkg::Lock::Timeout=600"}, there...)...)
		steps = append(steps, plan.Step{Op: "purge " + strings.Join(there, ", "), Why: p.why,
			Do: func(ctx context.Context) error { return do(ctx, h) }})
	}
	return steps, nil
}

// dropEntry removes a repository from apt's sources. A file without other repositories is
// removed. In a .list the other lines stay. A .sources with other repositories stays whole,
// because the operator must split its stanzas.
type dropEntry struct{ file, uri, why string }

// Diff implements plan.Resource.
func (d dropEntry) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	if !h.Exists(d.file) {
		return nil, nil
	}
	data, err := h.ReadFile(d.file)
	if err != nil {
		return nil, fmt.Errorf("cannot compare %s: %w", d.file, err)
	}
	var keep []string
	named, others := false, false
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		switch {
		case len(words) > 0 && !strings.HasPrefix(words[0], "#") && slices.ContainsFunc(words, func(w string) bool {
			return strings.TrimRight(w, "/") == strings.TrimRight(d.uri, "/")
		}):
			named = true
			continue
		case len(words) > 0 && (words[0] == "deb" || words[0] == "deb-src" || strings.EqualFold(words[0], "URIs:")):
			others = true
		}
		keep = append(keep, line)
	}
	switch {
	case !named || others && strings.HasSuffix(d.file, ".sources"):
		return nil, nil
	case !others:
		return resource.Absent{Path: d.file, Why: d.why}.Diff(ctx, h)
	}
	st, err := h.Stat(d.file)
	if err != nil {
		return nil, err
	}
	return plan.Plan{{Op: "take " + d.uri + " out of " + d.file, Why: d.why, Do: func(context.Context) error {
		return h.WriteFile(d.file, []byte(strings.Join(keep, "")), st.Mode().Perm())
	}}}, nil
}

// orphan removes a DKMS module that its package left behind.
type orphan struct{ kernel, why string }

// Diff implements plan.Resource. modprobe's index names the module until depmod runs, so an
// interrupted run is repeated.
func (o orphan) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	dir := "/lib/modules/" + o.kernel
	files, err := h.Glob(dir + "/updates/dkms/amdgpu.ko*")
	if err != nil {
		return nil, err
	}
	index, err := h.ReadFile(dir + "/modules.dep")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read modprobe's index: %w", err)
	}
	if len(files) == 0 && !strings.Contains(string(index), "updates/dkms/amdgpu.ko") {
		return nil, nil
	}
	return plan.Plan{{Op: "remove what is left of DKMS's amdgpu for kernel " + o.kernel, Why: o.why,
		Do: func(ctx context.Context) error {
			for _, f := range files {
				if err := h.Remove(f); err != nil {
					return err
				}
			}
			_, err := h.Run(ctx, host.Command{Argv: []string{"depmod", o.kernel}, Deadline: loadLimit})
			return err
		}}}, nil
}

// Problem describes a leftover or defect of an installation, and the command that fixes it.
type Problem struct{ What, Fix string }

// Leftovers returns the obstacles to an installation and to the driver: unfinished
// installations, sources, pins, and modules without a package.
func Leftovers(f DriverFacts) (all []Problem) {
	add := func(what, fix string) { all = append(all, Problem{what, fix}) }
	for _, p := range f.Packages {
		switch names := f.otherKernels(); {
		case p.Broken() && p.Name == driverPackage && len(names) > 0:
			all = append(all, unbuildable(f, p, names))
		case p.Broken():
			add(fmt.Sprintf("%s %s is %s: an earlier installation did not finish", p.Name, p.Version, p.Status),
				"sudo dpkg --configure -a && sudo apt-get install --fix-broken")
		case p.Held:
			add(fmt.Sprintf("%s is held at %s, so that no other version can be installed", p.Name, p.Version),
				"sudo apt-mark unhold "+p.Name)
		}
	}
	all = append(all, sourceProblems(f.Sources)...)
	for _, p := range f.Pins {
		switch {
		case p.File == pinFile:
		case strings.Contains(p.Package, `\n`):
			add(fmt.Sprintf(`%s:%d has \n instead of line ends, so that apt ignores it`, p.File, p.Line),
				"sudo rm "+p.File)
		default:
			add(fmt.Sprintf("%s:%d pins %s to %q with priority %s", p.File, p.Line, p.Package, p.Pin, p.Priority),
				"sudo rm "+p.File)
		}
	}
	if f.Kind.Contained() {
		return all // modules belong to the host
	}
	for _, b := range f.Blacklists {
		fix := fmt.Sprintf("sudo sed -i '%dd' %s && sudo update-initramfs -u", b.Line, b.File)
		if !strings.HasPrefix(b.File, "/etc/") {
			fix = "remove it from the kernel's command line: sudo editor /etc/default/grub && sudo update-grub"
		}
		add(fmt.Sprintf("%s:%d keeps amdgpu from being loaded: %s", b.File, b.Line, b.Text), fix)
	}
	return append(all, moduleProblems(f)...)
}

// sourceProblems returns foreign entries of AMD's repositories: several releases, or
// duplicates.
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
			what = fmt.Sprintf("%s:%d and %s:%d are of two releases: %s and %s", s.File, s.Line, was.File, was.Line,
				s.URI, was.URI)
		}
		all = append(all, Problem{what, dropSource(s)})
	}
	return all
}

// splitRelease splits the release from a repository's path:
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

// dropSource returns the command that removes a line from apt's sources, or a whole file of
// the other format.
func dropSource(s AptEntry) string {
	if strings.HasSuffix(s.File, ".sources") {
		return "sudo rm " + s.File
	}
	return fmt.Sprintf("sudo sed -i '%dd' %s", s.Line, s.File)
}

// moduleProblems returns problems of the module that DKMS builds.
func moduleProblems(f DriverFacts) (all []Problem) {
	i := slices.IndexFunc(f.Packages, func(p Installed) bool {
		return p.Name == driverPackage &&
			p.Status == "installed"
	})
	built := slices.IndexFunc(f.Module.Files, func(m ModuleFile) bool { return m.DKMS })
	switch {
	case i >= 0 && built < 0 && !f.Headers.Present:
		all = append(all, Problem{fmt.Sprintf("%s is installed and has no module for kernel %s: its headers are "+
			"missing", driverPackage, f.Kernel),
			"sudo apt-get install linux-headers-" + f.Kernel + " && sudo dkms autoinstall -k " + f.Kernel})
	case i >= 0 && built < 0:
		all = append(all, Problem{fmt.Sprintf("%s is installed and has no module for kernel %s", driverPackage,
			f.Kernel),
			"sudo dkms autoinstall -k " + f.Kernel + "; if that fails: less /var/lib/dkms/amdgpu/*/build/make.log"})
	case i < 0 && built >= 0 &&
		!slices.ContainsFunc(f.Packages, func(p Installed) bool { return p.Name == driverPackage }):
		all = append(all, Problem{f.Module.Files[built].Path + " is of no package: an earlier driver left it",
			"sudo dkms status amdgpu, then for its version: sudo dkms remove amdgpu/<version> --all"})
	}
	return all
}
