package amd

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/base/wellknown"
)

// What is installed comes from AMD's signed repositories of the driver and ROCm
// by apt alone, as in ROCm's documentation for its "native package manager
// installation"; amdgpu-install itself, a script that calls apt, is not needed:
// its own sources would name the same repositories with another key, which apt
// refuses ("Conflicting values set for option Signed-By").
const (
	// pinFile puts AMD's packages before Ubuntu's of the same names.
	pinFile = "/etc/apt/preferences.d/concourse-ci-amd"

	driverPackage = "amdgpu-dkms"
	installFile   = wellknown.StateDir + "/rocm-attempt.json"
)

var toolPackages = []string{"rocm-smi-lib", "amd-smi-lib"}

// Environment is what Install needs beside decision, facts and options.
type Environment struct {
	Seen    InstallState
	Proxies resource.Proxies
	Now     time.Time

	// Key is the fingerprint of the key that has to sign the repositories; ""
	// means KeyFingerprint. Tests have no key of AMD's.
	Key string
}

// InstallState is what ObserveInstall saw.
type InstallState struct {
	Attempt   *resource.Attempt // the last one, if it failed
	Initramfs bool              // the machine makes its own initial RAM disks
	Rules     bool              // rules under the name of UdevRules that are not the charm's
}

// ObserveInstall looks at the machine, reading only.
func ObserveInstall(r host.Root) InstallState {
	rules, err := r.ReadFile(UdevRules)
	return InstallState{Attempt: resource.ReadAttempt(r, installFile, "ROCm not ready"), Initramfs: r.Exists(initramfsTool),
		Rules: err == nil && !strings.HasPrefix(string(rules), mark)}
}

// InstallWant is what follows from a decision.
type InstallWant struct {
	Resources []plan.Resource
	Note      string   // what could not be installed and why; the rest of the unit works
	Remarks   []string // options that do nothing here, with the reason
}

// Install is the driver, ROCm and tools that were decided on, the module and
// the rules for the nodes. A failure stops what depends on it and nothing else;
// it is tried again half an hour later, or at once when an option changed.
func Install(d Decision, f DriverFacts, w Wanted, e Environment) (InstallWant, error) {
	want, err := installPackages(d, f, w, e)
	if err != nil {
		return want, err
	}
	if f.Where.Contained() {
		want.Remarks = containerRemarks(f, w)
		return want, nil
	}
	if len(f.GPUs) == 0 {
		return want, nil
	}
	// Before the module may be loaded, which is when they count.
	want.Resources = slices.Insert(want.Resources, 0, moduleParams(w.ModuleParams, f.Kernel, e.Seen.Initramfs))
	if wantsModule(f, d) {
		want.Resources = append(want.Resources, moduleAtBoot())
		if !d.Driver { // else it comes with its package
			want.Resources = append(want.Resources, module{})
		}
	} else {
		want.Resources = append(want.Resources, resource.Absent{Path: loadFile, Why: "amdgpu is not to be loaded"})
	}
	rules, err := udevRules(cmp.Or(w.DeviceMode, modeGroup))
	if err != nil {
		return want, err
	}
	want.Resources = append(want.Resources, rules)
	if e.Seen.Rules {
		want.Remarks = append(want.Remarks, "gpu-device-mode does nothing: "+UdevRules+" is not the charm's and stays as it is")
	}
	return want, nil
}

// wantsModule reports whether amdgpu is to be loaded: there is one, or will be,
// nobody forbids it, and there is a GPU that is not given to another driver.
func wantsModule(f DriverFacts, d Decision) bool {
	return len(f.Blacklists) == 0 && (d.Driver || f.Module.Selected != "" || f.Module.Loaded) &&
		slices.ContainsFunc(f.GPUs, func(g PCIGPU) bool { return g.Driver == "" || g.Driver == "amdgpu" })
}

// containerRemarks are about options that a container's host decides.
func containerRemarks(f DriverFacts, w Wanted) (remarks []string) {
	if cmp.Or(w.DeviceMode, modeGroup) != modeGroup {
		text := "gpu-device-mode does nothing: the host owns the GPU nodes of this container"
		if f.Where == LXD {
			text += "; on the LXD host run: lxc config device set " + cmp.Or(f.Hostname, "<container>") + " <gpu device> mode=" + w.DeviceMode
		}
		remarks = append(remarks, text)
	}
	if w.ModuleParams != "" {
		remarks = append(remarks, "amdgpu-module-params does nothing: the host of this container loads the module; set it there in /etc/modprobe.d")
	}
	return remarks
}

// installPackages is all that comes from apt, as one chain.
func installPackages(d Decision, f DriverFacts, w Wanted, e Environment) (InstallWant, error) {
	forget := resource.Absent{Path: installFile, Why: "nothing is left to be tried again"}
	driver := d.Driver && !f.Where.Contained() // whatever was decided: a container has no kernel
	if !driver && !d.Tools && len(d.Usecases) == 0 {
		return InstallWant{Resources: []plan.Resource{forget}}, nil
	}
	base := strings.TrimRight(cmp.Or(w.BaseURL, BaseURL), "/")
	at, err := url.Parse(base)
	if err != nil || at.Host == "" {
		return InstallWant{}, fmt.Errorf("cannot install ROCm: rocm-base-url is not a URL like %s", BaseURL)
	}
	inputs := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", []string{d.Release.ROCm, base, f.Series, f.Arch, f.Kernel,
		fmt.Sprint(driver, d.Tools, d.Usecases), e.Proxies.HTTP, e.Proxies.HTTPS, e.Proxies.No})))
	last := e.Seen.Attempt
	if last != nil && last.Inputs != inputs {
		last = nil
	}
	what := "ROCm " + d.Release.ROCm + " not ready"
	if p := foreignSource(d.Release, base, f, driver); p != "" {
		return InstallWant{Resources: []plan.Resource{forget}, Note: what + ": " + p}, nil
	}
	if last != nil && last.Pausing(e.Now) {
		last.What = what
		return InstallWant{Note: last.Text()}, nil
	}
	number := 1
	if last != nil {
		number = last.Attempt + 1
	}
	links, err := packageLinks(d, f, e, base, driver)
	if err != nil {
		return InstallWant{Resources: []plan.Resource{forget}, Note: what + ": " + err.Error()}, nil
	}
	if driver && wantsModule(f, d) {
		links = append(links, module{})
	}
	links = append(links, verify{Release: d.Release, Driver: driver, Tools: d.Tools, Inputs: inputs})
	return InstallWant{Resources: []plan.Resource{resource.Chain{Links: links, Tolerate: true, File: installFile,
		Done: "ROCm " + d.Release.ROCm + " is installed and verified", Host: at.Host, Vendor: "AMD",
		Next: resource.Attempt{Attempt: number, Inputs: inputs, What: what}}}}, nil
}

// packageLinks are keys, sources and packages, in the order in which each needs
// those before it.
func packageLinks(d Decision, f DriverFacts, e Environment, base string, driver bool) (links []plan.Resource, err error) {
	key := resource.AptKey{Path: keyPath, URL: base + keyURL, Fingerprint: cmp.Or(e.Key, KeyFingerprint), Proxies: e.Proxies, Remedy: keyRemedy}
	source := func(name, path string) resource.AptSource {
		return resource.AptSource{Name: name, URIs: []string{base + path}, Suites: []string{f.Series}, Components: []string{"main"},
			Architectures: []string{f.Arch}, SignedBy: keyPath}
	}
	pin := resource.File{Path: pinFile, Data: []byte("Package: *\nPin: release o=repo.radeon.com\nPin-Priority: 600\n"), Mode: 0o644}
	install := func(name, version string, from *resource.AptSource) resource.OwnedPackage {
		return resource.OwnedPackage{Package: resource.Package{Name: name, Version: version, Source: from, Proxies: e.Proxies}}
	}
	if driver {
		if d.Release.Package(f.Series) == "" {
			return nil, fmt.Errorf("no version of %s is known for %s", driverPackage, f.Series)
		}
		links = append(links, kernelPackages{Kernel: f.Kernel, Headers: f.Headers.Present, Proxies: e.Proxies})
	}
	links = append(links, key, pin)
	if driver {
		from := source(driverSource, d.Release.DriverRepo())
		links = append(links, from, install(driverPackage, d.Release.Package(f.Series), &from))
	}
	packages, err := usecasePackages(d.Usecases)
	if err != nil {
		return nil, err
	}
	if d.Tools {
		packages = append(packages, toolPackages...)
	}
	if len(packages) == 0 {
		return links, nil
	}
	from := source(rocmSource, d.Release.ROCmRepo())
	links = append(links, from)
	for _, name := range packages {
		links = append(links, install(name, "", &from))
	}
	return links, nil
}

// foreignSource says which line of somebody else's names a repository that the
// charm would add with another key.
func foreignSource(r Release, base string, f DriverFacts, driver bool) string {
	for _, s := range f.Sources {
		uri := strings.TrimRight(s.URI, "/")
		if ownSource(s.File) || uri != base+r.ROCmRepo() && !(driver && uri == base+r.DriverRepo()) {
			continue
		}
		return fmt.Sprintf("%s:%d names %s already, with a key of its own; on the unit run: %s", s.File, s.Line, uri, dropSource(s))
	}
	return ""
}

func ownSource(file string) bool {
	return strings.HasPrefix(file, "/etc/apt/sources.list.d/concourse-ci-")
}

// Gone takes away what Install brought, also where the charm forgot which parts
// of it: sources, packages, the module's files and the rules.
func Gone(f DriverFacts, e Environment, why string) []plan.Resource {
	var all []plan.Resource
	names := append([]string{driverPackage}, toolPackages...)
	for _, u := range Usecases() {
		names = append(names, usecases[u])
	}
	for _, name := range names {
		all = append(all, resource.RemoveOwned{Name: name, Why: why})
	}
	all = append(all, resource.AllAbsent(why, resource.AptSource{Name: driverSource}.Path(), resource.AptSource{Name: rocmSource}.Path(), pinFile,
		installFile, verifiedStamp, loadFile)...)
	params := moduleParams("", f.Kernel, e.Seen.Initramfs).(applied)
	params.gone = why
	return append(all, params, udev(resource.File{Path: UdevRules}, why))
}
