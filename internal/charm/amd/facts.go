package amd

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// Machine holds facts that the caller has already.
type Machine struct {
	Manager   wellknown.Manager // of a system container
	Container string            // systemd's name of the container manager: "lxc", "docker"; "" for metal or a VM
	Distro    string            // ID of os-release: ubuntu
	Series    string            // VERSION_CODENAME of os-release: noble, jammy
	Arch      string            // as dpkg and Go call it: amd64
}

// MachineKind is the kind of a unit's machine.
type MachineKind string

// The kinds of machine. In a container the host owns the driver.
const (
	LXD            MachineKind = "lxd"
	OtherContainer MachineKind = "container"
	VM             MachineKind = "vm"
	Metal          MachineKind = "metal"
)

// Contained reports whether the machine shares its kernel with a host.
func (w MachineKind) Contained() bool { return w == LXD || w == OtherContainer }

// DriverFacts holds the input of Decide as plain data. Equal facts give equal decisions.
// Paths are relative to the machine's root.
type DriverFacts struct {
	Machine
	Kind       MachineKind
	Hypervisor string // why the machine is a VM, otherwise ""
	Kernel     string // uname -r: "6.8.0-31-generic"
	BootID     string // of this boot

	Headers    Headers
	GPUs       []gpu.GPU // AMD's on the PCI bus, by address; see pciGPUs and describeGPUs
	Module     Module
	Blacklists []Blacklist
	SecureBoot bool
	Packages   []Installed // AMD's packages, including removed ones with remaining configuration
	Pins       []Pin
	Sources    []AptEntry
	RebootFor  []string // packages that require a reboot; one "" if their names are unknown
	Disk       uint64   // bytes free for root on the file system of /
	Memory     uint64   // bytes
	CPUs       int
}

// Headers describes the kernel's headers, which a driver build needs.
type Headers struct {
	Present   bool   // for the running kernel
	Package   string // "linux-headers-6.8.0-31-generic"
	Queried   bool   // apt was queried: only if headers are missing and a GPU has no driver
	Candidate string // version that apt can install, or ""
}

// Module describes the amdgpu kernel module, on disk and running.
type Module struct {
	Files      []ModuleFile // for the running kernel
	Selected   string       // path of the one that modprobe loads, or ""
	Loaded     bool
	Version    string // of the running module; only AMD's own has one
	SrcVersion string // of the running module: a hash of its sources
}

// ModuleFile describes an amdgpu.ko of the running kernel.
type ModuleFile struct {
	Path       string // /lib/modules/6.8.0-31-generic/updates/dkms/amdgpu.ko.zst
	DKMS       bool   // built on this machine, not the kernel's own
	Version    string // from modinfo, for the selected module only
	SrcVersion string
}

// OnDisk returns the file that modprobe loads, or the zero value.
func (m Module) OnDisk() ModuleFile {
	for _, f := range m.Files {
		if f.Path == m.Selected {
			return f
		}
	}
	return ModuleFile{}
}

// Stale reports whether the running module differs from the one on disk. Only a reboot
// changes that, because amdgpu cannot be unloaded while GPUs are in use.
func (m Module) Stale() bool {
	on := m.OnDisk().SrcVersion
	return m.Loaded && on != "" && m.SrcVersion != "" && on != m.SrcVersion
}

// Blacklist holds a line that keeps amdgpu from being loaded.
type Blacklist struct {
	File string // /etc/modprobe.d/x.conf, or /proc/cmdline
	Line int    // from 1
	Text string
}

// Installed describes a package of AMD.
type Installed struct {
	Name, Version string
	Status        string // dpkg's third word: installed, half-configured, config-files ...
	Held          bool
}

// Broken reports whether the installation did not finish.
func (i Installed) Broken() bool {
	switch i.Status {
	case "half-installed", "unpacked", "half-configured":
		return true
	}
	return false
}

// Pin describes an apt preference that names AMD's repository or packages.
type Pin struct {
	File                   string
	Line                   int // of Package, from 1
	Package, Pin, Priority string
}

// AptEntry describes an apt source of AMD, or a mirror with the same path.
type AptEntry struct {
	File string
	Line int // from 1
	URI  string
}

// Package returns one of AMD's packages; ok is false if it is not installed.
func (f DriverFacts) Package(name string) (p Installed, ok bool) {
	for _, p := range f.Packages {
		if p.Name == name && p.Status != "config-files" && p.Status != "not-installed" {
			return p, true
		}
	}
	return Installed{}, false
}

// OwnsDriver reports whether the charm's own apt source of the driver exists. The charm may
// change a driver that it installed.
func (f DriverFacts) OwnsDriver() bool {
	for _, s := range f.Sources {
		if s.File == DriverSourceFile {
			return true
		}
	}
	return false
}

// The apt sources that the charm creates for AMD's driver and user space.
const (
	driverSource     = "concourse-ci-amdgpu"
	DriverSourceFile = "/etc/apt/sources.list.d/" + driverSource + ".sources"
	rocmSource       = "concourse-ci-rocm"
	rocmSourceFile   = "/etc/apt/sources.list.d/" + rocmSource + ".sources"
)

// Print writes the facts for people, without empty ones.
func (f DriverFacts) Print(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", name+":", fmt.Sprintf(format, args...))
	}
	what := string(f.Kind)
	for _, detail := range []string{f.Hypervisor, f.Container} {
		if detail != "" && detail != what {
			what += " (" + detail + ")"
		}
	}
	line("machine", "%s, %s %s on %s, kernel %s", what, f.Distro, f.Series, f.Arch, f.Kernel)
	line("resources", "%d CPUs, %s memory, %s free on /", f.CPUs, units.FormatGB(f.Memory), units.FormatGB(f.Disk))
	for _, g := range f.GPUs {
		id := fmt.Sprintf("1002:%04x", g.DeviceID)
		name := strings.TrimSuffix(g.Model, " "+id) // a GPU without a name has its id
		chip := strings.Join(strings.Fields(fmt.Sprint(id, " ", family(g), " ", g.GFX)), " ")
		driver := cmp.Or(g.Driver, "no driver")
		if g.NotInKFD {
			driver += ", not in KFD"
		}
		line("GPU", "%s %s (%s), %s", g.PCI, name, chip, driver)
	}
	if f.Module.Loaded {
		line("running", "amdgpu %s", version(f.Module.Version, f.Module.SrcVersion))
	}
	for _, m := range f.Module.Files {
		note := ""
		if m.Path == f.Module.Selected {
			note = ", which modprobe takes"
		}
		if m.SrcVersion != "" {
			note += ", " + version(m.Version, m.SrcVersion)
		}
		line("module", "%s%s", m.Path, note)
	}
	switch h := f.Headers; {
	case h.Present:
		line("headers", "%s: there", h.Package)
	case h.Candidate != "":
		line("headers", "%s: apt has %s", h.Package, h.Candidate)
	case h.Queried:
		line("headers", "%s: apt has none", h.Package)
	}
	for _, l := range f.Blacklists {
		line("blacklist", "%s:%d %s", l.File, l.Line, l.Text)
	}
	if f.SecureBoot {
		line("secure boot", "on")
	}
	for _, p := range f.Packages {
		held := ""
		if p.Held {
			held = ", on hold"
		}
		line("package", "%s %s (%s%s)", p.Name, p.Version, p.Status, held)
	}
	for _, s := range f.Sources {
		line("source", "%s:%d %s", s.File, s.Line, s.URI)
	}
	for _, p := range f.Pins {
		line("pin", "%s:%d %s: %s, priority %s", p.File, p.Line, p.Package, p.Pin, p.Priority)
	}
	if f.RebootFor != nil {
		line("reboot", "wanted by %s", strings.Join(f.RebootFor, " "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Print writes a decision for people.
func (d Decision) Print(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "driver: %s: %s\n", d.State, d.Reason); err != nil {
		return err
	}
	for i, r := range d.Remedies {
		if _, err := fmt.Fprintf(w, "  %d. %s\n", i+1, r); err != nil {
			return err
		}
	}
	return nil
}

// Cause returns a decision for the status of a unit without a driver.
func (d Decision) Cause() status.Cause {
	return status.Block("driver %s: %s", d.State, d.Reason).Fix(d.Remedies...)
}
