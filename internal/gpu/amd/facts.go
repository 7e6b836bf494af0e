package amd

// Machine is what the caller knows of the machine already.
type Machine struct {
	Hostname  string // of an LXD unit also the container's name on its host
	Container string // what contains it, as systemd calls it: "lxc", "docker"; "" for metal or a VM
	Distro    string // ID of os-release: ubuntu
	Series    string // VERSION_CODENAME of os-release: noble, jammy
	Arch      string // as dpkg and Go call it: amd64
}

// Where says what kind of machine a unit is.
type Where string

// The kinds of machine. In a container somebody else owns the driver.
const (
	LXD            Where = "lxd"
	OtherContainer Where = "container"
	VM             Where = "vm"
	Metal          Where = "metal"
)

// Contained reports whether the machine shares its kernel with a host.
func (w Where) Contained() bool { return w == LXD || w == OtherContainer }

// DriverFacts is what Decide decides on. It is data: two equal ones give equal
// decisions. Paths are those of the machine.
type DriverFacts struct {
	Machine
	Where      Where
	Hypervisor string // why it is a VM, "" elsewhere
	Kernel     string // uname -r: "6.8.0-31-generic"
	BootID     string // of this boot

	Headers    Headers
	GPUs       []PCIGPU // AMD's on the PCI bus, by address
	Module     Module
	Blacklists []Blacklist
	SecureBoot bool
	Packages   []Installed // AMD's, those that were removed with their settings kept too
	Pins       []Pin
	Sources    []AptEntry
	RebootFor  []string // packages that want a reboot; one "" where none is named
	Disk       uint64   // bytes free for root on the file system of /
	Memory     uint64   // bytes
	CPUs       int
}

// Headers are the kernel's headers, which a driver is built with.
type Headers struct {
	Present   bool   // for the running kernel
	Package   string // "linux-headers-6.8.0-31-generic"
	Asked     bool   // apt was: only where they are missing and a GPU has no driver
	Candidate string // the version that apt could install, "" where none
}

// PCIGPU is one AMD GPU on the PCI bus.
type PCIGPU struct {
	PCI    string // 0000:03:00.0
	Device uint16 // PCI device id
	Family Family
	Driver string // kernel driver that is bound to it: amdgpu, vfio-pci; "" where none is
}

// Module is the amdgpu kernel module, on disk and running.
type Module struct {
	Files      []ModuleFile // for the running kernel
	Selected   string       // path of the one that modprobe would load, "" where none is
	Loaded     bool
	Version    string // of the running one; only AMD's own has one
	SrcVersion string // of the running one: a hash of its sources
}

// ModuleFile is an amdgpu.ko of the running kernel.
type ModuleFile struct {
	Path       string // /lib/modules/6.8.0-31-generic/updates/dkms/amdgpu.ko.zst
	DKMS       bool   // built on this machine, not the kernel's own
	Version    string // as modinfo has it, asked for the selected one only
	SrcVersion string
}

// OnDisk is the file that modprobe would load; the zero one where there is none.
func (m Module) OnDisk() ModuleFile {
	for _, f := range m.Files {
		if f.Path == m.Selected {
			return f
		}
	}
	return ModuleFile{}
}

// Stale reports whether another module runs than the one on disk: it takes a
// reboot to change that, since amdgpu can't be unloaded while GPUs are used.
func (m Module) Stale() bool {
	on := m.OnDisk().SrcVersion
	return m.Loaded && on != "" && m.SrcVersion != "" && on != m.SrcVersion
}

// Blacklist is a line that keeps amdgpu from being loaded.
type Blacklist struct {
	File string // /etc/modprobe.d/x.conf, or /proc/cmdline
	Line int    // counted from 1
	Text string
}

// Installed is a package of AMD's.
type Installed struct {
	Name, Version string
	Status        string // dpkg's third word: installed, half-configured, config-files ...
	Held          bool
}

// Broken reports whether an installation was begun and not finished.
func (i Installed) Broken() bool {
	switch i.Status {
	case "half-installed", "unpacked", "half-configured":
		return true
	}
	return false
}

// Pin is an apt preference that names AMD's repository or packages.
type Pin struct {
	File                   string
	Line                   int // of Package, counted from 1
	Package, Pin, Priority string
}

// AptEntry is an apt source of AMD's, or of a mirror under the same path.
type AptEntry struct {
	File string
	Line int // counted from 1
	URI  string
}

// Package is one of AMD's packages; ok is false where it is not there.
func (f DriverFacts) Package(name string) (p Installed, ok bool) {
	for _, p := range f.Packages {
		if p.Name == name && p.Status != "config-files" && p.Status != "not-installed" {
			return p, true
		}
	}
	return Installed{}, false
}

// Own reports whether the charm's own apt source for the driver is there: what
// it installed it may also change.
func (f DriverFacts) Own() bool {
	for _, s := range f.Sources {
		if s.File == DriverSourceFile {
			return true
		}
	}
	return false
}

const (
	gigabyte = 1_000_000_000 // bytes, as disks are sold
)

// The apt sources that the charm makes for AMD's driver and user space.
const (
	driverSource     = "concourse-ci-amdgpu"
	DriverSourceFile = "/etc/apt/sources.list.d/" + driverSource + ".sources"
	rocmSource       = "concourse-ci-rocm"
	rocmSourceFile   = "/etc/apt/sources.list.d/" + rocmSource + ".sources"
)
