package amd

import (
	"fmt"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/amd/chips"
	"slices"
	"strings"
)

// InstallDriver names a value of install-driver.
type InstallDriver string

// Values of InstallDriver.
const (
	DriverAuto    InstallDriver = "auto"    // only if the GPUs have no driver
	DriverAlways  InstallDriver = "always"  // also for integrated GPUs
	DriverReplace InstallDriver = "replace" // also instead of a driver that the charm did not install
	DriverNever   InstallDriver = "never"
)

// Always reports whether the operator requires AMD's driver, with or without a replacement.
func (i InstallDriver) Always() bool { return i == DriverAlways || i == DriverReplace }

// UsecaseSMI is the value of rocm-usecases that installs rocm-smi. It is none of AMD's use
// cases.
const UsecaseSMI = "smi"

// minDisk holds the free space on / that the driver's packages and their build need.
const minDisk = 5 * units.GB

// Wanted holds the options of the driver and of ROCm.
type Wanted struct {
	Commands      wellknown.Commands
	Version       string   // rocm-version: a row's ROCm; "" means the newest row for this machine
	BaseURL       string   // rocm-base-url; "" means BaseURL
	Usecases      []string // rocm-usecases
	InstallDriver InstallDriver
	AllowReboot   bool
	ModuleParams  string // amdgpu-module-params
}

// DriverState names the result of Decide.
type DriverState string

// The states of a machine's driver.
const (
	StateNone        DriverState = "none"          // the GPUs have no driver, or there are no GPUs
	StateSupported   DriverState = "supported"     // the running driver needs no change
	StateUnsupported DriverState = "unsupported"   // a driver, kernel or release outside the table
	StateMixed       DriverState = "mixed"         // parts of different releases, or an unfinished installation
	StateContainer   DriverState = "container"     // the host owns the driver
	StateReboot      DriverState = "reboot-needed" // the module on disk differs from the running one
)

// Decision holds the result of Decide.
type Decision struct {
	State    DriverState
	Reason   string   // one clause, for a status
	Remedies []string // in order, each with a command; empty without a problem
	Release  Release  // the row that applies; zero without one

	Install  bool     // any of the next three
	Driver   bool     // install the kernel driver of Release
	Tools    bool     // install rocm-smi of Release
	Usecases []string // user space of Release to install
	Reboot   string   // effect of a reboot, "" if a reboot would not help
}

// Decide decides on the driver and on AMD's user space of a machine, as a pure function of
// facts and options. A foreign driver stays without install-driver=replace. Every state with a
// problem has remedies.
func Decide(f DriverFacts, w Wanted) Decision {
	d := decideDriver(f, w)
	if len(w.Usecases) > 0 {
		d = decideUserSpace(d, f, w)
	}
	d.Install = d.Driver || d.Tools || len(d.Usecases) > 0
	return d
}

// decideUserSpace adds the packages that need no driver. If they cannot be installed, it
// appends the reason and leaves the decision on the driver.
func decideUserSpace(d Decision, f DriverFacts, w Wanted) Decision {
	r := d.Release
	if !r.Installs(f.Series) || w.Version != "" && r.ROCm != w.Version { // prefer the row of the running driver
		found, err := FindRelease(w.Version, f.Series, f.Kernel)
		if err != nil {
			remedies := []string{}
			if rows := installed(f.Series); len(rows) > 0 {
				remedies = append(remedies, w.Commands.SetOption("rocm-version="+rows[len(rows)-1]))
			}
			return refuseUserSpace(d, err.Error(), w, remedies...)
		}
		r = found
	}
	if f.Arch != "amd64" {
		return refuseUserSpace(d, "AMD has no packages for "+f.Arch, w, w.Commands.OtherMachine("amd64"))
	}
	if d.Driver && d.Release.ROCm != r.ROCm {
		r = d.Release
	}
	d.Release, d.Tools = r, slices.Contains(w.Usecases, UsecaseSMI)
	d.Usecases = slices.DeleteFunc(slices.Clone(w.Usecases), func(u string) bool { return u == UsecaseSMI })
	return d
}

func refuseUserSpace(d Decision, reason string, w Wanted, remedies ...string) Decision {
	d.Reason += "; rocm-usecases are not installed: " + reason
	d.Remedies = append(append(d.Remedies, remedies...), "or do without: "+w.Commands.SetOption("rocm-usecases="))
	return d
}

// decideDriver decides without user space.
func decideDriver(f DriverFacts, w Wanted) Decision {
	if f.Kind.Contained() {
		return decideContainer(f, w)
	}
	free, bound, foreign := f.split()
	switch {
	case len(f.GPUs) == 0 && strings.HasSuffix(f.Kernel, wsl2):
		return Decision{State: StateNone,
			Reason: "this is WSL2: Windows has the GPUs, and /dev/dxg is not supported here",
			Remedies: []string{"run the worker for Windows: docs/how-to/windows-worker.md",
				"or use no GPU here: " + w.Commands.SetOption("compute-runtime=none")}}
	case len(f.GPUs) == 0:
		return Decision{State: StateNone, Reason: "the PCI bus has no AMD GPU", Remedies: []string{
			"check that the GPU is seen: lspci -nn -d 1002:",
			"or use no GPU here: " + w.Commands.SetOption("compute-runtime=none")}}
	case len(free)+len(bound) == 0:
		return Decision{State: StateNone, Reason: fmt.Sprintf("the AMD GPUs of this machine are another driver's: %s",
			describe(foreign)),
			Remedies: []string{
				fmt.Sprintf("give one back: echo %s | sudo tee /sys/bus/pci/devices/%s/driver/unbind", foreign[0].PCI,
					foreign[0].PCI),
				"then: echo " + foreign[0].PCI + " | sudo tee /sys/bus/pci/drivers/amdgpu/bind"}}
	}
	if d, decided := decideBroken(f, w); decided {
		return d
	}
	if len(bound) > 0 {
		return decideBound(f, w, free, bound)
	}
	return decideFree(f, w, free)
}

// split groups GPUs into those without a driver, those of amdgpu, and those of other
// drivers, such as vfio-pci for a VM.
func (f DriverFacts) split() (free, bound, foreign []gpu.GPU) {
	for _, g := range f.GPUs {
		switch g.Driver {
		case "":
			free = append(free, g)
		case "amdgpu":
			bound = append(bound, g)
		default:
			foreign = append(foreign, g)
		}
	}
	return free, bound, foreign
}

// describe lists GPUs by address, with the driver if it is not amdgpu.
func describe(gpus []gpu.GPU) string {
	var names []string
	for _, g := range gpus {
		name := g.PCI
		if g.Driver != "" && g.Driver != "amdgpu" {
			name += " (" + g.Driver + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// decideContainer never changes the driver, because the kernel belongs to the host.
func decideContainer(f DriverFacts, w Wanted) Decision {
	host := "the host"
	if f.Kind == LXD {
		host = f.Manager.Host()
	}
	d := Decision{State: StateContainer}
	switch {
	case f.Module.Loaded:
		version := ""
		if f.Module.Version != "" {
			version = " " + f.Module.Version
		}
		d.Reason = fmt.Sprintf("%s has the driver amdgpu%s loaded, and it alone controls it", host, version)
	case f.Kind == LXD:
		d.Reason = "the driver is " + host + "'s, and it has none loaded"
		d.Remedies = []string{"on " + host + ": sudo modprobe amdgpu"}
		if k := f.Manager.Kind; k != wellknown.Proxmox { // its kernel has all modules
			d.Remedies = append(d.Remedies, "if Ubuntu's module is missing, on "+host+": sudo apt-get install "+
				"linux-modules-extra-$(uname -r)")
		}
		d.Remedies = append(d.Remedies, "then "+f.Manager.On(f.Manager.PassKFD()))
	default:
		d.Reason = "the driver is the host's, and it has none loaded"
		d.Remedies = []string{"on the host: sudo modprobe amdgpu"}
	}
	if w.InstallDriver.Always() {
		d.Reason += fmt.Sprintf("; install-driver=%s can do nothing in a container", w.InstallDriver)
		d.Remedies = append(d.Remedies, w.Commands.SetOption("install-driver=auto"))
	}
	return d
}

// decideFree decides for a machine with GPUs without a driver.
func decideFree(f DriverFacts, w Wanted, free []gpu.GPU) Decision {
	no := "no driver serves " + describe(free)
	if len(f.Blacklists) > 0 {
		return blacklisted(f, no)
	}
	on := f.Module.OnDisk()
	if !f.Module.Loaded && on.Path != "" && !(f.OwnsDriver() && w.InstallDriver != DriverNever) {
		d := Decision{State: StateNone, Reason: no + ": " + on.Path + " is not loaded"}
		d.Remedies = []string{"the charm loads it; by hand: sudo modprobe amdgpu",
			"if it stays without a GPU: sudo dmesg | grep -i amdgpu"}
		return d
	}
	if w.InstallDriver == DriverNever {
		d := Decision{State: StateNone, Reason: no, Remedies: []string{"let the charm install AMD's driver: " +
			w.Commands.SetOption("install-driver=auto")}}
		if on.Path == "" {
			d.Remedies = append(d.Remedies, "or use the kernel's own: "+f.loadOwn())
		}
		return d
	}
	r, err := FindRelease(w.Version, f.Series, f.Kernel)
	if err != nil {
		return unknownRelease(err, f, w)
	}
	has, installed := f.Package(driverPackage)
	switch {
	case f.Module.Stale():
		return addReboot(Decision{Release: r, Driver: f.OwnsDriver()}, f, w)
	case installed && has.Version == r.Package(f.Series) && f.Module.Loaded:
		d := Decision{State: StateUnsupported, Release: r, Driver: f.OwnsDriver(),
			Reason:   no + ", though amdgpu " + r.DKMSVersion + " of ROCm " + r.ROCm + " is loaded",
			Remedies: []string{"see why: sudo dmesg | grep -i amdgpu"}}
		for _, other := range releasesFor(f.Series, f.Kernel) {
			if other != r.ROCm {
				d.Remedies = append(d.Remedies, "or try another release: "+w.Commands.SetOption("rocm-version="+other))
			}
		}
		return d
	case installed && has.Version != r.Package(f.Series) && !f.OwnsDriver() && w.InstallDriver != DriverReplace:
		return Decision{State: StateUnsupported, Reason: no + ", and amdgpu-dkms " + has.Version +
			" is not the charm's to replace",
			Remedies: []string{"see why it does not: sudo dmesg | grep -i amdgpu",
				"let the charm change it to amdgpu " + r.DKMSVersion + ": " +
					w.Commands.SetOption("install-driver=replace")}}
	case w.InstallDriver == DriverAuto &&
		!slices.ContainsFunc(free, func(g gpu.GPU) bool { return family(g) != chips.APU }):
		return Decision{State: StateUnsupported, Reason: no +
			", and AMD's packages are not documented for integrated GPUs", Remedies: []string{
			"use the kernel's own: " + f.loadOwn(),
			"or try AMD's driver anyway: " + w.Commands.SetOption("install-driver=always")}}
	}
	return planInstall(Decision{State: StateNone, Release: r}, f, w,
		fmt.Sprintf("%s: amdgpu %s of ROCm %s will be installed", no, r.DKMSVersion, r.ROCm))
}

func blacklisted(f DriverFacts, no string) Decision {
	d := Decision{State: StateNone}
	var where []string
	for _, b := range f.Blacklists {
		where = append(where, fmt.Sprintf("%s:%d", b.File, b.Line))
		if b.File == "/proc/cmdline" {
			d.Remedies = append(d.Remedies,
				fmt.Sprintf("take %s out of GRUB_CMDLINE_LINUX in /etc/default/grub, then: sudo update-grub && "+
					"sudo reboot", b.Text))
			continue
		}
		d.Remedies = append(d.Remedies, fmt.Sprintf("sudo sed -i '%ds/^/# /' %s   # it has: %s", b.Line, b.File,
			b.Text))
		if name, packaged := strings.CutPrefix(b.File, "/usr/lib/modprobe.d/"); packaged { // a file in /etc hides it
			d.Remedies[len(d.Remedies)-1] = fmt.Sprintf("sed '%ds/^/# /' %s | sudo tee /etc/modprobe.d/%s   # "+
				"it has: %s", b.Line, b.File, name, b.Text)
		}
	}
	d.Remedies = append(d.Remedies, "then: sudo update-initramfs -u && sudo modprobe amdgpu")
	d.Reason = fmt.Sprintf("%s: amdgpu is blacklisted in %s", no, strings.Join(where, " and "))
	return d
}

// planInstall adds the driver of d's row to d, or returns the reason why this machine cannot
// have the driver. An installation that is known to fail halfway is never started.
func planInstall(d Decision, f DriverFacts, w Wanted, doing string) Decision {
	r := d.Release
	refuse := func(s DriverState, reason string, remedies ...string) Decision {
		return Decision{State: s, Release: r, Reason: fmt.Sprintf("amdgpu %s of ROCm %s can't be installed: %s",
			r.DKMSVersion, r.ROCm, reason), Remedies: remedies}
	}
	switch {
	case f.Arch != "amd64":
		return refuse(StateUnsupported, "AMD has no packages for "+f.Arch, w.Commands.OtherMachine("amd64"))
	case !r.Builds(f.Series, f.Kernel):
		remedies := []string{fmt.Sprintf("boot a kernel %s of Ubuntu %s", strings.Join(r.KernelsOn(f.Series), " or "),
			f.Series)}
		if others := releasesFor(f.Series, f.Kernel); len(others) > 0 {
			remedies = []string{fmt.Sprintf("choose a release that supports kernel %s: %s", majorMinor(f.Kernel),
				w.Commands.SetOption("rocm-version="+others[len(others)-1]))}
		}
		return refuse(StateUnsupported, fmt.Sprintf("AMD does not name kernel %s for it on %s, only %s", f.Kernel,
			f.Series, strings.Join(r.KernelsOn(f.Series), " and ")),
			append(remedies, "or use the kernel's own: "+f.loadOwn())...)
	case f.SecureBoot:
		return refuse(StateUnsupported,
			"Secure Boot is on, and a driver built here is signed with a key that the firmware does not trust",
			"use the kernel's own, which is signed: "+f.loadOwn(),
			"or enrol this machine's key at its console: sudo mokutil --import "+
				"/var/lib/shim-signed/mok/MOK.der, reboot, and install amdgpu-dkms by hand",
			"or switch Secure Boot off in the firmware: sudo systemctl reboot --firmware-setup")
	case !f.Headers.Present && f.Headers.Queried && f.Headers.Candidate == "":
		return refuse(StateUnsupported, "apt has no "+f.Headers.Package+", which the driver is built with",
			"boot a kernel with headers in apt: sudo apt-get update && sudo apt-get install linux-generic, "+
				"then "+w.Commands.OnUnit("sudo reboot"))
	case f.Disk < minDisk:
		return refuse(StateNone, fmt.Sprintf("%s are free on /, and the driver's build needs %s",
			units.FormatGB(f.Disk), units.FormatGB(minDisk)),
			"make room: sudo apt-get clean; see what is large with sudo du -xh --max-depth=2 / | sort -h | tail")
	}
	for _, p := range f.Packages {
		if p.Held && (p.Name == driverPackage || p.Name == driverPackage+"-firmware") &&
			build(p.Version) != build(r.Package(f.Series)) {
			return refuse(StateMixed, fmt.Sprintf("%s %s is on hold", p.Name, p.Version), "sudo apt-mark unhold "+
				p.Name, "or keep it: "+w.Commands.SetOption("install-driver=never"))
		}
	}
	d.Driver, d.Reason = true, doing
	d.Remedies = []string{"keep the charm from it: " + w.Commands.SetOption("install-driver=never")}
	return d
}

// releasesFor returns the rows that support the kernel on the series.
func releasesFor(series, kernel string) (versions []string) {
	for _, r := range Releases() {
		if r.Installs(series) && r.Builds(series, kernel) {
			versions = append(versions, r.ROCm)
		}
	}
	return versions
}
