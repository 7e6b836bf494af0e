package amd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// decideBroken finds unfinished installations and parts of different releases. Nothing is
// installed on top of them.
func decideBroken(f DriverFacts, w Wanted) (Decision, bool) {
	driver, installed := f.Package(driverPackage)
	if names := f.otherKernels(); driver.Broken() && len(names) > 0 {
		p := unbuildable(f, driver, names)
		return Decision{State: StateMixed, Reason: p.What, Remedies: []string{"remove it: " + p.Fix,
			fmt.Sprintf("or boot a kernel %s of Ubuntu %s, then: sudo dpkg --configure -a", strings.Join(names, " or "),
				f.Series)}}, true
	}
	for _, p := range f.Packages {
		if p.Broken() && !(f.OwnsDriver() &&
			strings.HasPrefix(p.Name, driverPackage)) { // the charm finishes its own installation
			return Decision{State: StateMixed,
				Reason: fmt.Sprintf("the package %s %s is %s: its installation did not finish", p.Name, p.Version,
					p.Status),
				Remedies: []string{"sudo dpkg --configure -a",
					"if that fails, list what would be removed: " + w.Commands.RunAction("reset-rocm")}}, true
		}
	}
	if firmware, ok := f.Package("amdgpu-dkms-firmware"); ok && installed &&
		build(firmware.Version) != build(driver.Version) && !f.OwnsDriver() {
		return Decision{State: StateMixed,
			Reason: fmt.Sprintf("amdgpu-dkms %s has the firmware of another release, %s", driver.Version,
				firmware.Version),
			Remedies: []string{"sudo apt-get install amdgpu-dkms=" + driver.Version + " amdgpu-dkms-firmware='*" +
				build(driver.Version) + "*'",
				"or list what would be removed: " + w.Commands.RunAction("reset-rocm")}}, true
	}
	if repos := f.driverRepos(); len(repos) > 1 {
		return Decision{State: StateMixed, Reason: "apt has AMD's driver from several releases: " +
			strings.Join(repos, ", "),
			Remedies: []string{"remove all but one of them from " + strings.Join(f.driverFiles(), " and ") +
				", then: sudo apt-get update"}}, true
	}
	if installed && !driver.Broken() && f.Module.Selected != "" && !f.Module.OnDisk().DKMS {
		return Decision{State: StateMixed,
			Reason: fmt.Sprintf("amdgpu-dkms %s is installed and has no module for kernel %s: modprobe takes "+
				"the kernel's own, %s",
				driver.Version, f.Kernel, f.Module.Selected), Remedies: []string{
				"sudo apt-get install " + f.Headers.Package + " && sudo dkms autoinstall -k " + f.Kernel,
				"if that fails, read the last lines of /var/lib/dkms/amdgpu/*/build/make.log; a kernel that the " +
					"driver knows is in: " + w.Commands.RunAction("rocm-matrix"),
				"or go back to the kernel's own: sudo apt-get purge amdgpu-dkms"}}, true
	}
	return Decision{}, false
}

// otherKernels returns the kernels of the installed driver in the table, if this one is not of them.
// Builds of one driver have the same kernels.
func (f DriverFacts) otherKernels() (names []string) {
	driver, _ := f.Package(driverPackage)
	for _, r := range Releases() {
		if r.Unknown == "" && strings.HasPrefix(driver.Version, "1:"+r.DKMSVersion+".") {
			for _, k := range r.KernelsOn(f.Series) {
				if !slices.Contains(names, k) {
					names = append(names, k)
				}
			}
		}
	}
	if slices.Contains(names, majorMinor(f.Kernel)) {
		return nil
	}
	return names
}

// unbuildable describes a driver that cannot be built for this kernel, and returns the command
// that removes it.
func unbuildable(f DriverFacts, driver Installed, kernels []string) Problem {
	p := Problem{fmt.Sprintf("%s %s is %s, because it can't be built for kernel %s, only for %s", driver.Name,
		driver.Version, driver.Status, f.Kernel, strings.Join(kernels, " or ")), "sudo apt-get purge amdgpu-dkms"}
	if _, bound, _ := f.split(); len(bound) > 0 && f.Module.Version == "" {
		p.What += "; the kernel's own driver serves the GPUs"
	} else {
		p.Fix += " && " + f.loadOwn()
	}
	return p
}

// loadOwn returns the command that loads the kernel's own driver.
func (f DriverFacts) loadOwn() string {
	here := slices.ContainsFunc(f.Module.Files, func(m ModuleFile) bool { return !m.DKMS })
	if here || f.Distro != "ubuntu" {
		return "sudo modprobe amdgpu"
	}
	return "sudo apt-get install linux-modules-extra-" + f.Kernel + " && sudo modprobe amdgpu"
}

// build returns the build number at the end of one of AMD's package versions, which all
// packages of a build share: 2109964 of 1:6.10.5.60302-2109964.24.04.
func build(version string) string {
	_, rest, _ := strings.Cut(version, "-")
	number, _, _ := strings.Cut(rest, ".")
	return number
}

func (f DriverFacts) driverRepos() (releases []string) {
	for _, s := range f.Sources {
		if r := driverRelease(s.URI); r != "" && !slices.Contains(releases, r) {
			releases = append(releases, r)
		}
	}
	return releases
}

func (f DriverFacts) driverFiles() (files []string) {
	for _, s := range f.Sources {
		if driverRelease(s.URI) != "" && !slices.Contains(files, s.File) {
			files = append(files, s.File)
		}
	}
	return files
}

// driverRelease returns 6.3.2 of https://repo.radeon.com/amdgpu/6.3.2/ubuntu.
func driverRelease(uri string) string {
	_, rest, ok := strings.Cut(uri, "/amdgpu/")
	release, end, _ := strings.Cut(rest, "/")
	if !ok || strings.Trim(end, "/") != "ubuntu" {
		return ""
	}
	return release
}

// decideBound decides for a machine with at least one GPU of amdgpu.
func decideBound(f DriverFacts, w Wanted, free, bound []gpu.GPU) Decision {
	d := withoutCompute(decideRunning(f, w), f, w, bound)
	if d.State != StateReboot && d.State != StateUnsupported && len(free) > 0 && !d.Driver {
		d.State = StateUnsupported
		d.Reason = fmt.Sprintf("the running driver does not serve %s, only %s", describe(free), describe(bound))
		d.Remedies = []string{"see why: sudo dmesg | grep -i amdgpu"}
		if want, err := FindRelease(w.Version, f.Series, f.Kernel); err == nil && !f.newerThan(want, w) {
			d.Remedies = append(d.Remedies, "or let the charm install AMD's driver: "+
				w.Commands.SetOption("install-driver=replace"))
		}
	}
	return d
}

// decideRunning decides on the driver that serves GPUs.
func decideRunning(f DriverFacts, w Wanted) Decision {
	want, werr := FindRelease(w.Version, f.Series, f.Kernel)
	has, installed := f.Package(driverPackage)
	row, known := releaseOfDriver(has.Version, f.Module.Version)
	newer := f.newerThan(want, w)
	asked := w.InstallDriver.Always() || w.InstallDriver != DriverNever && w.Version != ""
	switch {
	case f.OwnsDriver() && w.InstallDriver != DriverNever: // installed by the charm, which keeps or changes it
		if w.Version == "" && installed && known && row.Package(f.Series) == has.Version {
			want, newer = row, false
		}
		if newer {
			return keptDriver(f, row, known, want)
		}
		if want.ROCm == "" {
			return unknownRelease(werr, f, w)
		}
		d := Decision{State: StateSupported, Release: want, Driver: true, Reason: "amdgpu " + want.DKMSVersion +
			" of ROCm " + want.ROCm + " is the charm's own"}
		if has.Version != want.Package(f.Series) {
			return planInstall(d, f, w, fmt.Sprintf("amdgpu %s will be changed to %s of ROCm %s", has.Version,
				want.DKMSVersion, want.ROCm))
		}
		return addReboot(d, f, w)
	case f.Module.Stale():
		return addReboot(Decision{Release: row}, f, w)
	case newer:
		return keptDriver(f, row, known, want)
	case asked && werr != nil:
		return unknownRelease(werr, f, w)
	case w.InstallDriver == DriverReplace && !(installed && has.Version == want.Package(f.Series)):
		return planInstall(Decision{State: StateSupported, Release: want}, f, w,
			fmt.Sprintf("%s will be changed to amdgpu %s of ROCm %s", f.driverName(), want.DKMSVersion, want.ROCm))
	case known:
		d := keptDriver(f, row, known, want)
		if asked && row.ROCm != want.ROCm {
			return needsApproval(d, w, want)
		}
		return d
	case installed || f.Module.Version != "":
		d := Decision{State: StateUnsupported, Reason: f.driverName() +
			" is not in the table of releases; it is kept",
			Remedies: []string{"it may still work: " + w.Commands.RunAction("verify-gpu"),
				"list the tested versions: " + w.Commands.RunAction("rocm-matrix")}}
		if werr == nil {
			d.Remedies = append(d.Remedies, fmt.Sprintf("let the charm change it to amdgpu %s: %s", want.DKMSVersion,
				w.Commands.SetOption("install-driver=replace")))
		}
		return d
	}
	d := Decision{State: StateSupported, Reason: "the amdgpu of kernel " + f.Kernel +
		" serves the GPUs; containers need no more"}
	if asked {
		return needsApproval(d, w, want)
	}
	return d
}

// newerThan reports whether the running driver is newer than the row that an empty
// rocm-version selects. Such a driver is never downgraded.
func (f DriverFacts) newerThan(want Release, w Wanted) bool {
	runs := f.Module.Version
	if p, ok := f.Package(driverPackage); ok && runs == "" {
		_, runs, _ = strings.Cut(p.Version, ":")
	}
	if all := Releases(); want.ROCm == "" { // no row for this machine
		want = all[len(all)-1]
	}
	return w.Version == "" && newerDriver(runs, want.DKMSVersion)
}

// keptDriver returns the decision to keep the running driver.
func keptDriver(f DriverFacts, row Release, known bool, want Release) Decision {
	if known {
		return Decision{State: StateSupported, Release: row,
			Reason: fmt.Sprintf("amdgpu %s of ROCm %s serves the GPUs", row.DKMSVersion, row.ROCm)}
	}
	reason := f.driverName() + " serves the GPUs and stays: it is newer than the table of releases"
	if want.ROCm != "" {
		reason = fmt.Sprintf("%s serves the GPUs and stays: it is newer than %s of ROCm %s, the newest that the "+
			"charm installs here", f.driverName(), want.DKMSVersion, want.ROCm)
	}
	return Decision{State: StateSupported, Reason: reason}
}

// driverName names the running driver in a text.
func (f DriverFacts) driverName() string {
	if p, ok := f.Package(driverPackage); ok {
		return "amdgpu-dkms " + p.Version
	}
	if f.Module.Version != "" {
		return "amdgpu " + f.Module.Version + ", not from a package,"
	}
	return "the amdgpu of kernel " + f.Kernel
}

// needsApproval adds that a driver change requires install-driver=replace.
func needsApproval(d Decision, w Wanted, want Release) Decision {
	d.Reason += fmt.Sprintf("; amdgpu %s of ROCm %s is not put in its place without install-driver=replace",
		want.DKMSVersion, want.ROCm)
	d.Remedies = append(d.Remedies, "let the charm replace it: "+w.Commands.SetOption("install-driver=replace"),
		"or keep it: "+w.Commands.SetOption("install-driver=auto rocm-version="))
	return d
}

func unknownRelease(err error, f DriverFacts, w Wanted) Decision {
	d := Decision{State: StateUnsupported, Reason: err.Error()}
	if rows := releasesFor(f.Series, f.Kernel); len(rows) > 0 {
		d.Remedies = []string{"see the table: " + w.Commands.RunAction("rocm-matrix"),
			w.Commands.SetOption("rocm-version=" + rows[len(rows)-1])}
		return d
	}
	d.Remedies = []string{"use the kernel's own driver: " + f.loadOwn()}
	if w.Version != "" {
		d.Remedies = append(d.Remedies, "and choose none of AMD's: "+w.Commands.SetOption("rocm-version="))
	}
	return d
}

// addReboot turns d into a pending reboot if the module on disk differs from the running
// one.
func addReboot(d Decision, f DriverFacts, w Wanted) Decision {
	if !f.Module.Stale() {
		return d
	}
	on := f.Module.OnDisk()
	d.State = StateReboot
	d.Reason = fmt.Sprintf("amdgpu %s is on disk and %s runs", version(on.Version, on.SrcVersion),
		version(f.Module.Version, f.Module.SrcVersion))
	d.Reboot = "activate amdgpu " + version(on.Version, on.SrcVersion)
	d.Remedies = []string{w.Commands.SetOption("allow-reboot=true"),
		"or when it suits: " + w.Commands.OnUnit("sudo reboot")}
	return d
}

// version prefers the version number; the kernel's own module has only a hash of its
// sources.
func version(number, src string) string {
	if number != "" {
		return number
	}
	return "of the kernel (" + src + ")"
}
