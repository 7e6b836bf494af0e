package amd

import (
	"fmt"
	"slices"
	"strings"
)

// decideFree is a machine whose GPUs no driver serves.
func decideFree(f DriverFacts, w Wanted, free []PCIGPU) Decision {
	no := "no driver serves " + describe(free)
	if len(f.Blacklists) > 0 {
		return blacklisted(f, no)
	}
	on := f.Module.OnDisk()
	if !f.Module.Loaded && on.Path != "" && !(f.Own() && w.InstallDriver != DriverNever) {
		d := Decision{State: StateNone, Reason: no + ": " + on.Path + " is not loaded"}
		d.Remedies = []string{"the charm loads it; by hand: sudo modprobe amdgpu", "if it stays without a GPU: sudo dmesg | grep -i amdgpu"}
		return d
	}
	if w.InstallDriver == DriverNever {
		d := Decision{State: StateNone, Reason: no, Remedies: []string{"let the charm install AMD's driver: " + w.set("install-driver=auto")}}
		if on.Path == "" {
			d.Remedies = append(d.Remedies, "or install the kernel's own: sudo apt-get install linux-modules-extra-"+f.Kernel+" && sudo modprobe amdgpu")
		}
		return d
	}
	r, err := FindRelease(w.Version, f.Series, f.Kernel)
	if err != nil {
		return unknownRelease(err, w)
	}
	has, installed := f.Package(driverPackage)
	switch {
	case f.Module.Stale():
		return stale(Decision{Release: r, Driver: f.Own()}, f, w)
	case installed && has.Version == r.Package(f.Series) && f.Module.Loaded:
		return Decision{State: StateUnsupported, Release: r, Driver: f.Own(),
			Reason: no + ", though amdgpu " + r.DKMSVersion + " of ROCm " + r.ROCm + " is loaded", Remedies: []string{
				"see why: sudo dmesg | grep -i amdgpu", "try another release: juju run " + w.unit() + " rocm-matrix, then " + w.set("rocm-version=<one of them>")}}
	case installed && has.Version != r.Package(f.Series) && !f.Own() && !w.AllowDriverChange:
		return Decision{State: StateUnsupported, Reason: no + ", and amdgpu-dkms " + has.Version + " is not the charm's to replace",
			Remedies: []string{"see why it does not: sudo dmesg | grep -i amdgpu",
				"let the charm change it to amdgpu " + r.DKMSVersion + ": " + w.set("allow-driver-change=true")}}
	case w.InstallDriver == DriverAuto && !slices.ContainsFunc(free, func(g PCIGPU) bool { return g.Family != APU }):
		return Decision{State: StateUnsupported, Reason: no + ", and AMD's packages are not documented for integrated GPUs", Remedies: []string{
			"use the kernel's own: sudo apt-get install linux-modules-extra-" + f.Kernel + " && sudo modprobe amdgpu",
			"or try AMD's all the same: " + w.set("install-driver=always")}}
	}
	return attempt(Decision{State: StateNone, Release: r}, f, w, fmt.Sprintf("%s: amdgpu %s of ROCm %s is to be installed", no, r.DKMSVersion, r.ROCm))
}

func blacklisted(f DriverFacts, no string) Decision {
	d := Decision{State: StateNone}
	var where []string
	for _, b := range f.Blacklists {
		where = append(where, fmt.Sprintf("%s:%d", b.File, b.Line))
		if b.File == "/proc/cmdline" {
			d.Remedies = append(d.Remedies, fmt.Sprintf("take %s out of GRUB_CMDLINE_LINUX in /etc/default/grub, then: sudo update-grub && sudo reboot", b.Text))
			continue
		}
		d.Remedies = append(d.Remedies, fmt.Sprintf("sudo sed -i '%ds/^/# /' %s   # it has: %s", b.Line, b.File, b.Text))
		if name, packaged := strings.CutPrefix(b.File, "/usr/lib/modprobe.d/"); packaged { // one in /etc hides it
			d.Remedies[len(d.Remedies)-1] = fmt.Sprintf("sed '%ds/^/# /' %s | sudo tee /etc/modprobe.d/%s   # it has: %s", b.Line, b.File, name, b.Text)
		}
	}
	d.Remedies = append(d.Remedies, "then: sudo update-initramfs -u && sudo modprobe amdgpu")
	d.Reason = fmt.Sprintf("%s: amdgpu is blacklisted in %s", no, strings.Join(where, " and "))
	return d
}

// attempt is d with the driver of its row to be installed, or the reason why
// this machine can't have it. Nothing is begun that is known to end halfway.
func attempt(d Decision, f DriverFacts, w Wanted, doing string) Decision {
	r := d.Release
	refuse := func(s State, reason string, remedies ...string) Decision {
		return Decision{State: s, Release: r, Reason: fmt.Sprintf("amdgpu %s of ROCm %s can't be installed: %s", r.DKMSVersion, r.ROCm, reason), Remedies: remedies}
	}
	switch {
	case f.Arch != "amd64":
		return refuse(StateUnsupported, "AMD has no packages for "+f.Arch, "use an amd64 machine: juju add-unit "+w.app()+" --constraints arch=amd64")
	case !r.Builds(f.Series, f.Kernel):
		remedies := []string{fmt.Sprintf("boot a kernel %s of Ubuntu %s", strings.Join(r.KernelsOn(f.Series), " or "), f.Series)}
		if others := releasesFor(f.Series, f.Kernel); len(others) > 0 {
			remedies = []string{fmt.Sprintf("choose a release that knows kernel %s: %s", majorMinor(f.Kernel), w.set("rocm-version="+others[len(others)-1]))}
		}
		return refuse(StateUnsupported, fmt.Sprintf("AMD does not name kernel %s for it on %s, only %s", f.Kernel, f.Series, strings.Join(r.KernelsOn(f.Series), " and ")),
			append(remedies, "or use the kernel's own: sudo apt-get install linux-modules-extra-"+f.Kernel+" && sudo modprobe amdgpu")...)
	case f.SecureBoot:
		return refuse(StateUnsupported, "Secure Boot is on, and a driver that is built here is signed with a key that the firmware does not know",
			"use the kernel's own, which is signed: sudo apt-get install linux-modules-extra-"+f.Kernel+" && sudo modprobe amdgpu",
			"or enrol this machine's key at its console: sudo mokutil --import /var/lib/shim-signed/mok/MOK.der, reboot, and install amdgpu-dkms by hand",
			"or switch Secure Boot off in the firmware: sudo systemctl reboot --firmware-setup")
	case !f.Headers.Present && f.Headers.Asked && f.Headers.Candidate == "":
		return refuse(StateUnsupported, "apt has no "+f.Headers.Package+", which the driver is built with",
			"boot a kernel whose headers apt has: sudo apt-get update && sudo apt-get install linux-generic, then juju ssh "+w.unit()+" sudo reboot")
	case w.MinDisk > 0 && f.Disk < w.MinDisk:
		return refuse(StateNone, fmt.Sprintf("%.1f GB are free on /, and min-disk-gb is %d", float64(f.Disk)/gigabyte, w.MinDisk/gigabyte),
			"make room: sudo apt-get clean; see what is large with sudo du -xh --max-depth=2 / | sort -h | tail",
			"or lower the bar: "+w.set("min-disk-gb=<GB>"))
	}
	for _, p := range f.Packages {
		if p.Held && (p.Name == driverPackage || p.Name == driverPackage+"-firmware") && build(p.Version) != build(r.Package(f.Series)) {
			return refuse(StateMixed, fmt.Sprintf("%s %s is on hold", p.Name, p.Version), "sudo apt-mark unhold "+p.Name, "or keep it: "+w.set("install-driver=never"))
		}
	}
	d.Driver, d.Reason = true, doing
	d.Remedies = []string{"keep the charm from it: " + w.set("install-driver=never")}
	return d
}

// releasesFor are the rows that know the kernel on the series.
func releasesFor(series, kernel string) (versions []string) {
	for _, r := range Releases() {
		if r.Installs(series) && r.Builds(series, kernel) {
			versions = append(versions, r.ROCm)
		}
	}
	return versions
}
