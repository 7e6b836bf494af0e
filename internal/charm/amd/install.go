package amd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// All packages come from AMD's signed repositories of the driver and ROCm through apt, as
// in ROCm's documentation of its "native package manager installation". amdgpu-install, a
// script that calls apt, is not used: its sources name the same repositories with another
// key, which apt rejects ("Conflicting values set for option Signed-By").
const (
	// pinFile prefers AMD's packages to Ubuntu's of the same names.
	pinFile = "/etc/apt/preferences.d/concourse-ci-amd"

	driverPackage = "amdgpu-dkms"
	installFile   = wellknown.StateDir + "/rocm-attempt.json"
)

var toolPackages = []string{"rocm-smi-lib", "amd-smi-lib"}

// Environment holds further input of Install.
type Environment struct {
	Seen    InstallState
	Proxies resource.Proxies
	Now     time.Time

	// Key is the fingerprint of the key that must sign the repositories; "" means
	// KeyFingerprint. Tests lack AMD's key.
	Key string
}

// InstallState holds the result of ObserveInstall.
type InstallState struct {
	Attempt   *resource.Attempt // the last attempt, if it failed
	Initramfs bool              // the machine makes its own initial RAM disks
}

// ObserveInstall reads the state of the machine.
func ObserveInstall(r host.Root) InstallState {
	return InstallState{Attempt: resource.ReadAttempt(r, installFile, "ROCm not ready"),
		Initramfs: r.Exists(initramfsTool)}
}

// InstallWant holds the resources for a decision.
type InstallWant struct {
	Resources []plan.Resource
	Note      string         // failed part and reason; the rest of the unit works
	Remarks   []status.Cause // options without effect here, with the reason
}

// Install returns the resources of the decided driver, ROCm and tools, of the module and of
// the rules for the nodes. A failure stops only its dependents. It is retried after half an
// hour, or at once if an option changed.
func Install(d Decision, f DriverFacts, w Wanted, e Environment) (InstallWant, error) {
	want, err := installPackages(d, f, w, e)
	if err != nil {
		return want, err
	}
	if f.Kind.Contained() {
		want.Remarks = containerRemarks(f, w)
		return want, nil
	}
	if len(f.GPUs) == 0 {
		return want, nil
	}
	// First, because the parameters apply when the module is loaded.
	want.Resources = slices.Insert(want.Resources, 0, moduleParams(w.ModuleParams, f.Kernel, e.Seen.Initramfs))
	if wantsModule(f, d) {
		want.Resources = append(want.Resources, moduleAtBoot())
		if !d.Driver { // otherwise its package loads it
			want.Resources = append(want.Resources, module{})
		}
	} else {
		want.Resources = append(want.Resources, resource.Absent{Path: loadFile, Why: "amdgpu is not to be loaded"})
	}
	rules, err := udevRules()
	if err != nil {
		return want, err
	}
	want.Resources = append(want.Resources, rules)
	return want, nil
}

// wantsModule reports whether amdgpu must be loaded: it is or will be installed, it is not
// blacklisted, and at least one GPU belongs to no other driver.
func wantsModule(f DriverFacts, d Decision) bool {
	return len(f.Blacklists) == 0 && (d.Driver || f.Module.Selected != "" || f.Module.Loaded) &&
		slices.ContainsFunc(f.GPUs, func(g gpu.GPU) bool { return g.Driver == "" || g.Driver == "amdgpu" })
}

// containerRemarks lists the options that only a container's host can apply.
func containerRemarks(f DriverFacts, w Wanted) (remarks []status.Cause) {
	if w.ModuleParams != "" {
		remarks = append(remarks, status.Warn("amdgpu-module-params does nothing: the host loads the module").
			Explain("set it there in /etc/modprobe.d"))
	}
	return remarks
}

// installPackages returns the packages as one chain.
func installPackages(d Decision, f DriverFacts, w Wanted, e Environment) (InstallWant, error) {
	forget := resource.Absent{Path: installFile, Why: "nothing is left to retry"}
	driver := d.Driver && !f.Kind.Contained() // even if decided otherwise: a container has no kernel
	if !driver && !d.Tools && len(d.Usecases) == 0 {
		return InstallWant{Resources: []plan.Resource{forget}}, nil
	}
	base := strings.TrimRight(cmp.Or(w.BaseURL, BaseURL), "/")
	at, err := url.Parse(base)
	if err != nil || at.Host == "" {
		return InstallWant{}, fmt.Errorf("cannot install ROCm: rocm-base-url is not a URL like %s", BaseURL)
	}
	inputs := fmt.Sprintf("%x",
		sha256.Sum256(fmt.Appendf(nil, "%q", []string{d.Release.ROCm, base, f.Series, f.Arch, f.Kernel,
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

// packageLinks returns keys, sources and packages, in the order of their dependencies.
func packageLinks(d Decision, f DriverFacts, e Environment, base string, driver bool) (links []plan.Resource,
	err error) {
	key := resource.AptKey{Path: keyPath, URL: base + keyURL, Fingerprint: cmp.Or(e.Key, KeyFingerprint),
		Proxies: e.Proxies, Remedy: keyRemedy}
	source := func(name, path string) resource.AptSource {
		return resource.AptSource{Name: name, URIs: []string{base + path}, Suites: []string{f.Series},
			Components:    []string{"main"},
			Architectures: []string{f.Arch}, SignedBy: keyPath}
	}
	pin := resource.File{Path: pinFile,
		Data: []byte("Package: *\nPin: release o=repo.radeon.com\nPin-Priority: 600\n"), Mode: 0o644}
	install := func(name, version string, from *resource.AptSource) resource.OwnedPackage {
		return resource.OwnedPackage{Package: resource.Package{Name: name, Version: version, Source: from,
			Proxies: e.Proxies}}
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

// foreignSource describes a foreign apt line with a repository that the charm would add
// with another key, or returns "".
func foreignSource(r Release, base string, f DriverFacts, driver bool) string {
	for _, s := range f.Sources {
		uri := strings.TrimRight(s.URI, "/")
		if ownSource(s.File) || uri != base+r.ROCmRepo() && !(driver && uri == base+r.DriverRepo()) {
			continue
		}
		return fmt.Sprintf("%s:%d names %s already, with another key; on the unit run: %s", s.File, s.Line, uri,
			dropSource(s))
	}
	return ""
}

func ownSource(file string) bool {
	return strings.HasPrefix(file, "/etc/apt/sources.list.d/concourse-ci-")
}

// Uninstall removes everything that Install may have installed, even without records:
// sources, packages, the module's files and the rules.
func Uninstall(f DriverFacts, e Environment, why string) []plan.Resource {
	var all []plan.Resource
	names := append([]string{driverPackage}, toolPackages...)
	for _, u := range Usecases() {
		names = append(names, usecases[u])
	}
	for _, name := range names {
		all = append(all, resource.RemoveOwned{Name: name, Why: why})
	}
	all = append(all, resource.AllAbsent(why, resource.AptSource{Name: driverSource}.Path(),
		resource.AptSource{Name: rocmSource}.Path(), pinFile,
		installFile, verifiedStamp, loadFile)...)
	params := moduleParams("", f.Kernel, e.Seen.Initramfs).(applied)
	params.absentWhy = why
	return append(all, params, udev(resource.File{Path: UdevRules}, why))
}

// kernelPackages installs the packages for building and loading the driver: the headers of
// the running kernel, and Ubuntu's separate package of modules if the kernel has one. They
// belong to Ubuntu and stay when the driver is removed.
type kernelPackages struct {
	Kernel  string
	Headers bool // installed by any package
	Proxies resource.Proxies
}

// Diff implements plan.Resource.
func (k kernelPackages) Diff(ctx context.Context, h host.Host) (p plan.Plan, err error) {
	if !k.Headers {
		p, err = resource.Package{Name: "linux-headers-" + k.Kernel, Proxies: k.Proxies}.Diff(ctx, h)
		if err != nil {
			return nil, err
		}
	}
	// Any amdgpu.ko shows that the package is installed: it contains one, and DKMS builds
	// one with the package's files.
	there, err := h.Glob("/lib/modules/" + k.Kernel + "/kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko*")
	if err != nil {
		return nil, err
	}
	built, err := h.Glob("/lib/modules/" + k.Kernel + "/updates/dkms/amdgpu.ko*")
	if err != nil || len(there)+len(built) > 0 {
		return p, err
	}
	extra, err := resource.Package{Name: "linux-modules-extra-" + k.Kernel, Proxies: k.Proxies}.Diff(ctx, h)
	if err != nil || len(extra) == 0 {
		return p, err
	}
	install := extra[len(extra)-1]
	if len(p) == 0 {
		p = extra[:len(extra)-1] // the package lists, which the headers need as well
	}
	do := install.Do
	install.Do = func(ctx context.Context) error {
		err := do(ctx)
		var c *host.CommandError
		if errors.As(err, &c) && strings.Contains(c.Stderr, "Unable to locate package") {
			return nil // a kernel with all its modules in one package
		}
		return err
	}
	return append(p, install), nil
}

// usecases maps the names of amdgpu-install --usecase to the meta-packages of
// repo.radeon.com/rocm/apt: AMD's page "Package manager integration" and the use case
// column of its native installation. Use cases that need AMD's graphics repository are left
// out.
var usecases = map[string]string{
	"rocm":         "rocm",
	"lrt":          "rocm-language-runtime",
	"hip":          "rocm-hip-runtime",
	"hiplibsdk":    "rocm-hip-sdk",
	"opencl":       "rocm-opencl-runtime",
	"openclsdk":    "rocm-opencl-sdk",
	"openmpsdk":    "rocm-openmp-sdk",
	"mllib":        "rocm-ml-libraries",
	"mlsdk":        "rocm-ml-sdk",
	"rocmdevtools": "rocm-developer-tools",
}

// Usecases returns the available use cases, sorted.
func Usecases() []string { return slices.Sorted(maps.Keys(usecases)) }

// usecasePackages returns the packages of use cases, in their order.
func usecasePackages(names []string) ([]string, error) {
	var packages []string
	for _, n := range names {
		if n == "dkms" { // install-driver decides on the driver
			continue
		}
		p, ok := usecases[n]
		if !ok {
			return nil, fmt.Errorf("use case %q is not one of %s", n, strings.Join(Usecases(), ", "))
		}
		if !slices.Contains(packages, p) {
			packages = append(packages, p)
		}
	}
	return packages, nil
}
