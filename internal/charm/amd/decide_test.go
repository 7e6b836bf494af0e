package amd

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/stretchr/testify/require"
)

func defaults() Wanted {
	return Wanted{Commands: wellknown.Commands{Unit: "rocm-worker/0"}, InstallDriver: DriverAuto}
}

const (
	testKernel = "6.8.0-52-generic"
	integrated = 0x15bf // PCI device id of an APU
)

// fresh is a noble machine with one GPU without a driver, and with what a build needs.
func fresh() DriverFacts {
	return DriverFacts{Machine: noble(""), Kind: Metal, Kernel: testKernel, BootID: "b1",
		Headers: Headers{Present: true, Package: "linux-headers-" + testKernel},
		GPUs:    []gpu.GPU{{Slot: gpu.Slot{PCI: "0000:03:00.0"}, DeviceID: 0x744c}}, Disk: 100 * units.GB, Memory: 64 * units.GB, CPUs: 8}
}

const (
	kernelFile = "/lib/modules/" + testKernel + "/kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko.zst"
	dkmsFile   = "/lib/modules/" + testKernel + "/updates/dkms/amdgpu.ko.zst"
)

func on(path, version, src string) func(*DriverFacts) {
	return func(f *DriverFacts) {
		f.Module.Files = append(f.Module.Files, ModuleFile{Path: path, DKMS: path == dkmsFile, Version: version, SrcVersion: src})
		f.Module.Selected = path
	}
}

func runs(version, src string) func(*DriverFacts) {
	return func(f *DriverFacts) {
		f.Module.Loaded, f.Module.Version, f.Module.SrcVersion = true, version, src
		for i := range f.GPUs {
			f.GPUs[i].Driver = "amdgpu"
		}
	}
}

func pkg(name, version, status string) func(*DriverFacts) {
	return func(f *DriverFacts) {
		f.Packages = append(f.Packages, Installed{Name: name, Version: version, Status: status})
	}
}

func driver(version string) func(*DriverFacts) { return pkg(driverPackage, version, "installed") }

func src(file, uri string) func(*DriverFacts) {
	return func(f *DriverFacts) { f.Sources = append(f.Sources, AptEntry{file, 1, uri}) }
}

// byCharm is the charm's own source for a release's driver.
func byCharm(release string) func(*DriverFacts) {
	return src(DriverSourceFile, "https://repo.radeon.com/amdgpu/"+release+"/ubuntu")
}

func with(f DriverFacts, changes ...func(*DriverFacts)) DriverFacts {
	for _, c := range changes {
		c(&f)
	}
	return f
}

func wanting(change func(*Wanted)) Wanted {
	w := defaults()
	change(&w)
	return w
}

const (
	v632  = "1:6.10.5.60302-2109964.24.04"
	v643  = "1:6.12.12.60403-2194681.24.04"
	v724  = "1:6.16.13.30300400-2341068.24.04"
	v7140 = "1:6.19.14.31400000-2364437.24.04"
	later = "1:6.19.18.31400200-2399999.24.04" // made up
	other = "1:6.7.0.60103-1787253.24.04"
)

var decisions = []struct {
	name     string
	facts    DriverFacts
	wanted   Wanted
	state    DriverState
	reason   string // part of it
	remedy   string // part of one of them, "" if none must be
	installs string // ROCm release of the driver, "" if none is
	reboot   bool
}{
	{"no GPU", with(fresh(), func(f *DriverFacts) { f.GPUs = nil }), defaults(), StateNone, "no AMD GPU", "compute-runtime=none", "", false},
	{"WSL2", with(fresh(), func(f *DriverFacts) { f.GPUs, f.Kernel = nil, "6.6.87.2-microsoft-standard-WSL2" }), defaults(), StateNone, "this is WSL2", "windows-worker.md", "", false},
	{"all GPUs are a VM's", with(fresh(), func(f *DriverFacts) { f.GPUs[0].Driver = "vfio-pci" }), defaults(), StateNone, "0000:03:00.0 (vfio-pci)", "/drivers/amdgpu/bind", "", false},
	{"fresh", fresh(), defaults(), StateNone, "no driver serves 0000:03:00.0: amdgpu 6.16.13 of ROCm 7.2.4 will be installed", "install-driver=never", "7.2.4", false},
	{"fresh VM", with(fresh(), func(f *DriverFacts) { f.Kind = VM }), defaults(), StateNone, "will be installed", "", "7.2.4", false},
	{"fresh, another release", fresh(), wanting(func(w *Wanted) { w.Version = "7.2.3" }), StateNone, "amdgpu 6.16.13 of ROCm 7.2.3", "", "7.2.3", false},
	{"fresh, never", fresh(), wanting(func(w *Wanted) { w.InstallDriver = DriverNever }), StateNone, "no driver serves", "install-driver=auto", "", false},
	{"fresh, unknown release", fresh(), wanting(func(w *Wanted) { w.Version = "9.9.9" }), StateUnsupported, "ROCm 9.9.9 is not in the table of releases: it has 6.3.2,", "rocm-matrix", "", false},
	{"fresh, a release without the series", with(fresh(), func(f *DriverFacts) { f.Series, f.Kernel = "jammy", "5.15.0-131-generic" }), wanting(func(w *Wanted) { w.Version = "7.1.1" }), StateUnsupported, "ROCm 7.1.1 is not known to work on jammy, only on noble; on jammy it is 6.3.2, 6.4.3, 7.2.3", "rocm-matrix", "", false},
	{"fresh jammy", with(fresh(), func(f *DriverFacts) { f.Series, f.Kernel = "jammy", "5.15.0-131-generic" }), defaults(), StateNone, "7.2.3", "", "7.2.3", false},
	{"a series that no row has", with(fresh(), func(f *DriverFacts) { f.Series = "plucky" }), defaults(), StateUnsupported, "no release is known to work on plucky", "linux-modules-extra-6.8.0-52-generic && sudo modprobe amdgpu", "", false},
	{"a kernel that the row does not name", with(fresh(), func(f *DriverFacts) { f.Kernel = "6.14.0-24-generic" }), wanting(func(w *Wanted) { w.Version = "6.3.2" }), StateUnsupported, "AMD does not name kernel 6.14.0-24-generic for it on noble, only 6.8 and 6.11", "rocm-version=7.1.1", "", false},
	{"a kernel that no row names", with(fresh(), func(f *DriverFacts) { f.Kernel = "7.0.0-31-generic" }), defaults(), StateUnsupported, "7.0.0-31", "boot a kernel 6.8 or 6.17", "", false},
	{"not amd64", with(fresh(), func(f *DriverFacts) { f.Arch = "arm64" }), defaults(), StateUnsupported, "no packages for arm64", "arch=amd64", "", false},
	{"Secure Boot", with(fresh(), func(f *DriverFacts) { f.SecureBoot = true }), defaults(), StateUnsupported, "Secure Boot is on", "mokutil --import", "", false},
	{"no headers in apt", with(fresh(), func(f *DriverFacts) {
		f.Headers = Headers{Package: "linux-headers-" + testKernel, Queried: true}
	}), defaults(), StateUnsupported, "apt has no linux-headers-6.8.0-52-generic", "apt-get install linux-generic", "", false},
	{"headers not asked for", with(fresh(), func(f *DriverFacts) { f.Headers.Present = false }), defaults(), StateNone, "will be installed", "", "7.2.4", false},
	{"too little disk", with(fresh(), func(f *DriverFacts) { f.Disk = 4_900_000_000 }), defaults(), StateNone, "4.9 GB are free on /, and the driver's build needs 5.0 GB", "apt-get clean", "", false},
	{"the driver's package is on hold", with(fresh(), driver(other), func(f *DriverFacts) { f.Packages[0].Held = true }), wanting(func(w *Wanted) { w.InstallDriver = DriverReplace }), StateMixed, "on hold", "apt-mark unhold amdgpu-dkms", "", false},
	{"an APU alone", with(fresh(), func(f *DriverFacts) { f.GPUs[0].DeviceID = integrated }), defaults(), StateUnsupported, "integrated GPUs", "linux-modules-extra-" + testKernel, "", false},
	{"an APU alone, always", with(fresh(), func(f *DriverFacts) { f.GPUs[0].DeviceID = integrated }), wanting(func(w *Wanted) { w.InstallDriver = DriverAlways }), StateNone, "will be installed", "", "7.2.4", false},
	{"an APU beside a card", with(fresh(), func(f *DriverFacts) {
		f.GPUs = append(f.GPUs, gpu.GPU{Slot: gpu.Slot{PCI: "0000:0c:00.0"}, DeviceID: integrated})
	}), defaults(), StateNone, "will be installed", "", "7.2.4", false},
	{"blacklisted", with(fresh(), func(f *DriverFacts) {
		f.Blacklists = []Blacklist{{"/etc/modprobe.d/gpu.conf", 3, "blacklist amdgpu"}}
	}), defaults(), StateNone, "blacklisted in /etc/modprobe.d/gpu.conf:3", "sed -i '3s/^/# /' /etc/modprobe.d/gpu.conf", "", false},
	{"the kernel's own is on disk", with(fresh(), on(kernelFile, "", "K")), defaults(), StateNone, "amdgpu.ko.zst is not loaded", "sudo modprobe amdgpu", "", false},
	{"the kernel's own is loaded and serves nothing", with(fresh(), on(kernelFile, "", "K"), func(f *DriverFacts) { f.Module.Loaded, f.Module.SrcVersion = true, "K" }), defaults(), StateNone, "will be installed", "", "7.2.4", false},
	{"a foreign driver serves nothing", with(fresh(), on(dkmsFile, "6.7.0", "D"), driver(other), func(f *DriverFacts) { f.Module.Loaded, f.Module.SrcVersion = true, "D" }), defaults(), StateUnsupported, "is not the charm's to replace", "install-driver=replace", "", false},
	{"a foreign driver serves nothing and may go", with(fresh(), on(dkmsFile, "6.7.0", "D"), driver(other), func(f *DriverFacts) { f.Module.Loaded, f.Module.SrcVersion = true, "D" }), wanting(func(w *Wanted) { w.InstallDriver = DriverReplace }), StateNone, "will be installed", "", "7.2.4", false},
	{"the wanted driver is loaded and serves nothing", with(fresh(), on(dkmsFile, "6.16.13", "D"), driver(v724), func(f *DriverFacts) { f.Module.Loaded, f.Module.SrcVersion = true, "D" }), defaults(), StateUnsupported, "is loaded", "dmesg", "", false},
	{"the charm's driver is half installed", with(fresh(), byCharm("6.3.2"), pkg(driverPackage, v632, "half-configured")), defaults(), StateNone, "will be installed", "", "7.2.4", false},

	{"the kernel's own", with(fresh(), on(kernelFile, "", "K"), runs("", "K")), defaults(), StateSupported, "the amdgpu of kernel 6.8.0-52-generic serves the GPUs", "", "", false},
	{"the kernel's own, on a kernel and series that no row has", with(fresh(), on(kernelFile, "", "K"), runs("", "K"), func(f *DriverFacts) { f.Series, f.Kernel, f.SecureBoot = "plucky", "6.14.0-24-generic", true }), defaults(), StateSupported, "containers need no more", "", "", false},
	{"the kernel's own, always", with(fresh(), on(kernelFile, "", "K"), runs("", "K")), wanting(func(w *Wanted) { w.InstallDriver = DriverAlways }), StateSupported, "not put in its place without install-driver=replace", "install-driver=replace", "", false},
	{"the kernel's own, replaced", with(fresh(), on(kernelFile, "", "K"), runs("", "K")), wanting(func(w *Wanted) { w.InstallDriver = DriverReplace }), StateSupported, "will be changed to amdgpu 6.16.13", "", "7.2.4", false},
	{"the kernel's own, never", with(fresh(), on(kernelFile, "", "K"), runs("", "K")), wanting(func(w *Wanted) {
		w.InstallDriver, w.Version = DriverNever, "7.2.3"
	}), StateSupported, "serves the GPUs", "", "", false},
	{"the kernel's own serves one of two", with(fresh(), on(kernelFile, "", "K"), runs("", "K"), func(f *DriverFacts) {
		f.GPUs = append(f.GPUs, gpu.GPU{Slot: gpu.Slot{PCI: "0000:83:00.0"}, DeviceID: 0x744c})
	}), defaults(), StateUnsupported, "does not serve 0000:83:00.0, only 0000:03:00.0", "dmesg", "", false},
	{"KFD refuses the only card", with(fresh(), on(kernelFile, "", "K"), runs("", "K"), refused(0)), defaults(), StateUnsupported, "the amdgpu of kernel 6.8.0-52-generic runs, but no GPU computes: KFD refuses 0000:03:00.0", "dmesg | grep kfd", "", false},
	{"KFD refuses one of two", with(fresh(), on(kernelFile, "", "K"), two, runs("", "K"), refused(1)), defaults(), StateUnsupported, "serves 0000:03:00.0, and KFD refuses 0000:83:00.0", "dmesg | grep kfd", "", false},
	{"an old chip alone", with(fresh(), on(dkmsFile, "6.12.12", "D"), driver(v643), runs("6.12.12", "D"), func(f *DriverFacts) { f.GPUs[0].GFX = "gfx803" }), defaults(), StateUnsupported, "runs, but no GPU computes: no ROCm of the table supports 0000:03:00.0", "compute-runtime=none", "", false},
	{"an old chip beside a card", with(fresh(), on(kernelFile, "", "K"), two, runs("", "K"), func(f *DriverFacts) { f.GPUs[1].GFX = "gfx701" }), defaults(), StateSupported, "serves 0000:03:00.0, and no ROCm of the table supports 0000:83:00.0", "", "", false},
	{"KFD refuses the card of the charm's driver", with(fresh(), byCharm("6.3.2"), on(dkmsFile, "6.10.5", "D"), driver(v632), runs("6.10.5", "D"), refused(0)), defaults(), StateUnsupported, "no GPU computes: KFD refuses 0000:03:00.0", "dmesg | grep kfd", "6.3.2", false},
	{"an operator's driver of a row", with(fresh(), on(dkmsFile, "6.12.12", "D"), driver(v643), runs("6.12.12", "D")), defaults(), StateSupported, "amdgpu 6.12.12 of ROCm 6.4.3 serves", "", "", false},
	{"an operator's driver of a row, another release", with(fresh(), on(dkmsFile, "6.12.12", "D"), driver(v643), runs("6.12.12", "D")), wanting(func(w *Wanted) { w.Version = "7.2.3" }), StateSupported, "ROCm 7.2.3 is not put in its place", "install-driver=replace", "", false},
	{"an operator's driver of a row, another release that replaces it", with(fresh(), on(dkmsFile, "6.12.12", "D"), driver(v643), runs("6.12.12", "D")), wanting(func(w *Wanted) { w.Version, w.InstallDriver = "7.2.3", DriverReplace }), StateSupported, "will be changed to amdgpu 6.16.13 of ROCm 7.2.3", "", "7.2.3", false},
	{"a driver in no row", with(fresh(), on(dkmsFile, "6.7.0", "D"), driver(other), runs("6.7.0", "D")), defaults(), StateUnsupported, "is not in the table of releases; it is kept", "install-driver=replace", "", false},
	{"a driver in no row, replaced", with(fresh(), on(dkmsFile, "6.7.0", "D"), driver(other), runs("6.7.0", "D")), wanting(func(w *Wanted) { w.InstallDriver = DriverReplace }), StateSupported, "will be changed to amdgpu 6.16.13", "", "7.2.4", false},
	{"a driver that is no package's", with(fresh(), on(dkmsFile, "6.9.1", "D"), runs("6.9.1", "D")), defaults(), StateUnsupported, "amdgpu 6.9.1, not from a package, is not in the table of releases", "verify-gpu", "", false},
	{"the charm's own", with(fresh(), byCharm("6.3.2"), on(dkmsFile, "6.10.5", "D"), driver(v632), runs("6.10.5", "D")), defaults(), StateSupported, "is the charm's own", "", "6.3.2", false},
	{"the charm's own, of an earlier rocm-version", with(fresh(), byCharm("6.4.3"), on(dkmsFile, "6.12.12", "D"), driver(v643), runs("6.12.12", "D")), defaults(), StateSupported, "ROCm 6.4.3 is the charm's own", "", "6.4.3", false},
	{"the charm's own changes without a replacement", with(fresh(), byCharm("6.3.2"), on(dkmsFile, "6.10.5", "D"), driver(v632), runs("6.10.5", "D")), wanting(func(w *Wanted) { w.Version = "6.4.3" }), StateSupported, "will be changed to 6.12.12 of ROCm 6.4.3", "", "6.4.3", false},
	{"the charm's own, never", with(fresh(), byCharm("6.3.2"), on(dkmsFile, "6.10.5", "D"), driver(v632), runs("6.10.5", "D")), wanting(func(w *Wanted) { w.InstallDriver = DriverNever }), StateSupported, "amdgpu 6.10.5 of ROCm 6.3.2 serves", "", "", false},

	{"fresh, kernel 6.11", with(fresh(), func(f *DriverFacts) { f.Kernel = "6.11.0-29-generic" }), defaults(), StateNone, "ROCm 6.4.3 will be installed", "", "6.4.3", false},
	{"fresh, kernel 6.14", with(fresh(), func(f *DriverFacts) { f.Kernel = "6.14.0-24-generic" }), defaults(), StateNone, "ROCm 7.1.1 will be installed", "", "7.1.1", false},
	{"fresh, kernel 6.17", with(fresh(), func(f *DriverFacts) { f.Kernel = "6.17.0-22-generic" }), defaults(), StateNone, "ROCm 7.2.4 will be installed", "", "7.2.4", false},
	{"fresh, a release that is recognised only", fresh(), wanting(func(w *Wanted) { w.Version = "7.14.0" }), StateUnsupported, "ROCm 7.14.0 is recognised and not installed: the kernels that AMD names for it were not seen; on noble it is 6.3.2", "rocm-matrix", "", false},
	{"driver 31.40", with(fresh(), on(dkmsFile, "6.19.14.31400000", "D"), driver(v7140), runs("6.19.14.31400000", "D")), defaults(), StateSupported, "amdgpu 6.19.14 of ROCm 7.14.0 serves", "", "", false},
	{"driver 31.40 of another build", with(fresh(), on(dkmsFile, "6.19.14.31400000", "D"), driver("1:6.19.14.31400000-2370381.24.04"), runs("6.19.14.31400000", "D")), defaults(), StateSupported, "ROCm 7.14.0 serves", "", "", false},
	{"driver 31.50 on 26.04", with(fresh(), on(dkmsFile, "7.1.3.31500000", "D"), driver("1:7.1.3.31500000-2390945.26.04"), runs("7.1.3.31500000", "D"), func(f *DriverFacts) { f.Series = "resolute" }), defaults(), StateSupported, "ROCm 10.0.0 serves", "", "", false},
	{"a driver newer than the row", with(fresh(), on(dkmsFile, "6.19.18.31400200", "D"), driver(later), runs("6.19.18.31400200", "D")), defaults(), StateSupported, "stays: it is newer than 6.16.13 of ROCm 7.2.4", "", "", false},
	{"a driver newer than the row, replaced", with(fresh(), on(dkmsFile, "6.19.18.31400200", "D"), driver(later), runs("6.19.18.31400200", "D")), wanting(func(w *Wanted) { w.InstallDriver = DriverReplace }), StateSupported, "is newer than", "", "", false},
	{"a driver newer than the row, an older release by name", with(fresh(), on(dkmsFile, "6.19.18.31400200", "D"), driver(later), runs("6.19.18.31400200", "D")), wanting(func(w *Wanted) { w.Version, w.InstallDriver = "6.4.3", DriverReplace }), StateSupported, "will be changed to amdgpu 6.12.12 of ROCm 6.4.3", "", "6.4.3", false},
	{"the charm's own, newer than the row", with(fresh(), byCharm("31.40.2"), on(dkmsFile, "6.19.18.31400200", "D"), driver(later), runs("6.19.18.31400200", "D")), defaults(), StateSupported, "is newer than", "", "", false},
	{"a driver newer than the table", with(fresh(), on(dkmsFile, "7.3.1.31700000", "D"), runs("7.3.1.31700000", "D"), func(f *DriverFacts) { f.Series = "resolute" }), defaults(), StateSupported, "newer than the table of releases", "", "", false},
	{"a newer driver that serves one of two", with(fresh(), on(dkmsFile, "6.19.18.31400200", "D"), driver(later), runs("6.19.18.31400200", "D"), func(f *DriverFacts) {
		f.GPUs = append(f.GPUs, gpu.GPU{Slot: gpu.Slot{PCI: "0000:83:00.0"}, DeviceID: 0x744c})
	}), defaults(), StateUnsupported, "does not serve 0000:83:00.0", "dmesg", "", false},

	{"a new driver waits for a reboot", with(fresh(), byCharm("6.3.2"), on(kernelFile, "", "K"), on(dkmsFile, "6.10.5", "D"), driver(v632), runs("", "K")), defaults(), StateReboot, "amdgpu 6.10.5 is on disk and of the kernel (K) runs", "allow-reboot=true", "6.3.2", true},
	{"an operator's new driver waits for a reboot", with(fresh(), on(dkmsFile, "6.7.0", "D"), driver(other), runs("", "K")), defaults(), StateReboot, "6.7.0 is on disk", "sudo reboot", "", true},

	{"half a package", with(fresh(), pkg("rocm-core", "6.3.2.60302-66~24.04", "half-installed")), defaults(), StateMixed, "rocm-core 6.3.2.60302-66~24.04 is half-installed", "dpkg --configure -a", "", false},
	{"half a driver of somebody else", with(fresh(), pkg(driverPackage, v632, "half-configured")), defaults(), StateMixed, "half-configured", "reset-rocm", "", false},
	{"a driver that kernel 7.0 can't build, beside the kernel's own", with(fresh(), on("/lib/modules/7.0.0-15-generic/kernel/amdgpu.ko.zst", "", "K"), halfOn70, runs("", "K")), defaults(), StateMixed, "it can't be built for kernel 7.0.0-15-generic, only for 6.8 or 6.17; the kernel's own driver serves the GPUs", "sudo apt-get purge amdgpu-dkms", "", false},
	{"a driver that kernel 7.0 can't build, and none runs", with(fresh(), halfOn70), defaults(), StateMixed, "can't be built for kernel 7.0", "purge amdgpu-dkms && sudo apt-get install linux-modules-extra-7.0.0-15-generic && sudo modprobe amdgpu", "", false},
	{"a driver of the charm's that kernel 7.0 can't build", with(fresh(), byCharm("30.30.4"), halfOn70), defaults(), StateMixed, "can't be built for kernel 7.0", "or boot a kernel 6.8 or 6.17 of Ubuntu noble, then: sudo dpkg --configure -a", "", false},
	{"firmware of another build", with(fresh(), on(dkmsFile, "6.10.5", "D"), driver(v632), pkg("amdgpu-dkms-firmware", v643, "installed"), runs("6.10.5", "D")), defaults(), StateMixed, "firmware of another release", "amdgpu-dkms-firmware='*2109964*'", "", false},
	{"firmware of the same build with numbers of its own", with(fresh(), on(dkmsFile, "6.16.6", "D"), driver("1:6.16.6.30200100-2255209.24.04"), pkg("amdgpu-dkms-firmware", "30.20.1.0.30200100-2255209.24.04", "installed"), runs("6.16.6", "D")), defaults(), StateSupported, "ROCm 7.1.1 serves", "", "", false},
	{"two releases in apt", with(fresh(), src("/etc/apt/sources.list.d/a.list", "https://repo.radeon.com/amdgpu/6.3.2/ubuntu"), src("/etc/apt/sources.list.d/b.list", "https://repo.radeon.com/amdgpu/6.4.3/ubuntu")), defaults(), StateMixed, "several releases: 6.3.2, 6.4.3", "/etc/apt/sources.list.d/b.list", "", false},
	{"no module for this kernel", with(fresh(), on(kernelFile, "", "K"), driver(v632), runs("", "K")), defaults(), StateMixed, "has no module for kernel 6.8.0-52-generic", "dkms autoinstall -k 6.8.0-52-generic", "", false},

	{"LXD with a driver", with(fresh(), lxd, runs("6.10.5", "D")), defaults(), StateContainer, "the LXD host has the driver amdgpu 6.10.5 loaded", "", "", false},
	{"LXD without one", with(fresh(), lxd), defaults(), StateContainer, "the LXD host's, and it has none loaded", "lxc config device add juju-4f2a10-0 kfd unix-char source=/dev/kfd path=/dev/kfd gid=44 required=false", "", false},
	{"LXD, always", with(fresh(), lxd, runs("6.10.5", "D")), wanting(func(w *Wanted) { w.InstallDriver = DriverReplace }), StateContainer, "install-driver=replace can do nothing in a container", "juju config rocm-worker install-driver=auto", "", false},
	{"another container", with(fresh(), func(f *DriverFacts) { f.Kind, f.Container = OtherContainer, "docker" }), defaults(), StateContainer, "the host's, and it has none loaded", "on the host: sudo modprobe amdgpu", "", false},
}

// halfOn70 has a driver of no row, of a version that the table has, on Ubuntu 24.04.5.
func halfOn70(f *DriverFacts) {
	f.Kernel = "7.0.0-15-generic"
	pkg(driverPackage, "1:6.16.13.30300100-2303411.24.04", "half-configured")(f)
}

func two(f *DriverFacts) {
	f.GPUs = append(f.GPUs, gpu.GPU{Slot: gpu.Slot{PCI: "0000:83:00.0"}, DeviceID: 0x744c})
}

func refused(i int) func(*DriverFacts) { return func(f *DriverFacts) { f.GPUs[i].NotInKFD = true } }

func lxd(f *DriverFacts) { f.Kind, f.Container = LXD, "lxc" }

var command = regexp.MustCompile(`sudo |juju |lxc |docs/|lspci |modprobe |boot a kernel|/etc/`)

func TestDecide(t *testing.T) {
	seen := map[DriverState]bool{}
	for _, c := range decisions {
		t.Run(c.name, func(t *testing.T) {
			d := Decide(c.facts, c.wanted)
			seen[d.State] = true
			require.Equal(t, c.state, d.State, d.Reason)
			require.Contains(t, d.Reason, c.reason)
			require.Equal(t, c.installs != "", d.Driver, d.Reason)
			require.Equal(t, d.Driver, d.Install)
			if d.Driver {
				require.Equal(t, c.installs, d.Release.ROCm)
			}
			require.Equal(t, c.reboot, d.Reboot != "")
			require.True(t, c.remedy == "" || slices.ContainsFunc(d.Remedies, func(r string) bool { return strings.Contains(r, c.remedy) }), "%q", d.Remedies)
			for _, r := range d.Remedies {
				require.Regexp(t, command, r, "a remedy names a command")
			}
			if d.State != StateSupported && d.State != StateContainer {
				require.NotEmpty(t, d.Remedies)
			}
			require.NotContains(t, fmt.Sprint(d.Reason, d.Remedies), "<application>")
			require.Equal(t, d, Decide(c.facts, c.wanted))
		})
	}
	for _, s := range []DriverState{StateNone, StateSupported, StateUnsupported, StateMixed, StateContainer, StateReboot} {
		require.True(t, seen[s], "no row for state %s", s)
	}
}

// A driver that the charm did not install is never replaced without install-driver=replace.
func TestForeignDriverIsReplacedOnlyWithApproval(t *testing.T) {
	n := 0
	for _, c := range decisions {
		foreign := c.facts.Module.Loaded && c.facts.GPUs != nil && c.facts.GPUs[0].Driver == "amdgpu" && !c.facts.OwnsDriver()
		for _, mode := range []InstallDriver{DriverAuto, DriverAlways, DriverNever} {
			for _, version := range []string{"", "6.3.2", "6.4.3", "7.2.3", "9.9.9"} {
				w := c.wanted
				w.InstallDriver, w.Version = mode, version
				d := Decide(c.facts, w)
				if foreign || c.facts.Kind.Contained() || mode == DriverNever {
					n++
					require.False(t, d.Driver, "%s %s %s: %s", c.name, mode, version, d.Reason)
				}
			}
		}
	}
	require.Greater(t, n, 200)
}

// User space needs no driver of the charm's, in a container neither.
func TestUserSpace(t *testing.T) {
	tools := wanting(func(w *Wanted) { w.Usecases = []string{UsecaseSMI} })
	both := wanting(func(w *Wanted) { w.Usecases = []string{"hip", UsecaseSMI} })
	for name, c := range map[string]struct {
		facts   DriverFacts
		wanted  Wanted
		release string // "" if none is installed
		reason  string
	}{
		"LXD":                       {with(fresh(), lxd, runs("", "K")), tools, "7.2.4", "the LXD host has the driver"},
		"metal, kernel's driver":    {with(fresh(), on(kernelFile, "", "K"), runs("", "K")), both, "7.2.4", "serves"},
		"the release of the driver": {with(fresh(), on(dkmsFile, "6.12.12", "D"), driver(v643), runs("6.12.12", "D")), tools, "6.4.3", "serves"},
		"beside a newer driver":     {with(fresh(), on(dkmsFile, "6.19.14.31400000", "D"), driver(v7140), runs("6.19.14.31400000", "D")), tools, "7.2.4", "ROCm 7.14.0 serves"},
		"with the driver":           {fresh(), both, "7.2.4", "will be installed"},
		"named":                     {with(fresh(), lxd, runs("", "K")), wanting(func(w *Wanted) { w.Usecases, w.Version = []string{UsecaseSMI}, "7.2.3" }), "7.2.3", ""},
		"unknown":                   {with(fresh(), lxd, runs("", "K")), wanting(func(w *Wanted) { w.Usecases, w.Version = []string{UsecaseSMI}, "1.2.3" }), "", "1.2.3 is not in the table"},
		"no such series":            {with(fresh(), lxd, runs("", "K"), func(f *DriverFacts) { f.Series = "focal" }), tools, "", "no release is known to work on focal"},
		"arm64":                     {with(fresh(), lxd, runs("", "K"), func(f *DriverFacts) { f.Arch = "arm64" }), tools, "", "no packages for arm64"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(c.facts, c.wanted)
			require.Contains(t, d.Reason, c.reason)
			require.Equal(t, c.release != "", d.Tools)
			require.Equal(t, c.release != "", d.Install)
			if c.release == "" {
				require.NotEmpty(t, d.Remedies)
				return
			}
			require.Equal(t, c.release, d.Release.ROCm)
			require.NotContains(t, d.Usecases, UsecaseSMI)
			require.Len(t, d.Usecases, len(c.wanted.Usecases)-1)
		})
	}
}
