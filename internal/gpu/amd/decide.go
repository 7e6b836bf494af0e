package amd

import (
	"cmp"
	"fmt"
	"strings"
)

// Values of install-driver.
const (
	DriverAuto   = "auto"   // where no driver serves the GPUs
	DriverAlways = "always" // instead of the kernel's own, too
	DriverNever  = "never"
)

// ToolsSMI is the value of rocm-tools that brings rocm-smi.
const ToolsSMI = "smi"

// Wanted is what the options say.
type Wanted struct {
	App, Unit         string   // for texts; "" where not known
	Version           string   // rocm-version: a row's ROCm; "" means the newest row for this machine
	BaseURL           string   // rocm-base-url; "" means BaseURL
	Usecases          []string // rocm-usecases
	InstallDriver     string   // auto, always, never
	AllowDriverChange bool
	AllowReboot       bool
	ModuleParams      string // amdgpu-module-params
	DeviceMode        string // 0660, 0666
	Tools             string // none, smi
	MinDisk           uint64 // min-disk-gb in bytes; 0 is no check
}

// set is the command that sets an option.
func (w Wanted) set(setting string) string { return "juju config " + w.app() + " " + setting }

func (w Wanted) app() string  { return cmp.Or(w.App, "<application>") }
func (w Wanted) unit() string { return cmp.Or(w.Unit, "<unit>") }

// State is what Decide found.
type State string

// The states of a machine's driver.
const (
	StateNone        State = "none"          // no driver serves the GPUs, or there are no GPUs
	StateSupported   State = "supported"     // the driver that runs is fine as it is
	StateUnsupported State = "unsupported"   // a driver, kernel or release that no row names
	StateMixed       State = "mixed"         // parts of different releases, or half of one
	StateContainer   State = "container"     // the host owns the driver
	StateReboot      State = "reboot-needed" // what is on disk is not what runs
)

// Decision is what follows, before anything is done.
type Decision struct {
	State    State
	Reason   string   // one clause, for a status
	Remedies []string // in order, each with a command; empty where nothing is wrong
	Release  Release  // the row that applies; zero where none does

	Install  bool     // there is something to install: any of the next three
	Driver   bool     // the kernel driver of Release is to be there
	Tools    bool     // rocm-smi of Release is to be there
	Usecases []string // user space of Release that is to be there
	Reboot   string   // what a reboot would do, "" where none would help
}

// Decide says what is to become of the driver and of AMD's user space on a
// machine: a pure function of what was seen and what is wanted. A driver that
// serves GPUs and is not the charm's own stays as it is unless both
// install-driver=always or another rocm-version and allow-driver-change ask
// for its end. Every state but one that is as it should be has remedies.
func Decide(f DriverFacts, w Wanted) Decision {
	d := decideDriver(f, w)
	if w.Tools == ToolsSMI || len(w.Usecases) > 0 {
		d = decideUserSpace(d, f, w)
	}
	d.Install = d.Driver || d.Tools || len(d.Usecases) > 0
	return d
}

// decideUserSpace adds what needs no driver of its own. That it can't be had
// never changes what was decided on the driver; it is said beside it.
func decideUserSpace(d Decision, f DriverFacts, w Wanted) Decision {
	r := d.Release
	if !r.Installs(f.Series) || w.Version != "" && r.ROCm != w.Version { // the row of the running driver is preferred
		found, err := FindRelease(w.Version, f.Series, f.Kernel)
		if err != nil {
			return refuseUserSpace(d, err.Error(), w.set("rocm-version=<one of them>"), w)
		}
		r = found
	}
	if f.Arch != "amd64" {
		return refuseUserSpace(d, "AMD has no packages for "+f.Arch, "move the unit to an amd64 machine: juju add-unit --constraints arch=amd64", w)
	}
	if d.Driver && d.Release.ROCm != r.ROCm {
		r = d.Release
	}
	d.Release, d.Tools, d.Usecases = r, w.Tools == ToolsSMI, w.Usecases
	return d
}

func refuseUserSpace(d Decision, reason, remedy string, w Wanted) Decision {
	d.Reason += "; rocm-tools and rocm-usecases are not installed: " + reason
	d.Remedies = append(d.Remedies, remedy, "or do without: "+w.set("rocm-tools=none rocm-usecases="))
	return d
}

// decideDriver is Decide without user space.
func decideDriver(f DriverFacts, w Wanted) Decision {
	if f.Where.Contained() {
		return decideContainer(f, w)
	}
	free, bound, foreign := f.split()
	switch {
	case len(f.GPUs) == 0:
		return Decision{State: StateNone, Reason: "there is no AMD GPU on the PCI bus", Remedies: []string{
			"check that the GPU is seen: lspci -nn -d 1002:",
			"or use no GPU here: " + w.set("compute-runtime=none")}}
	case len(free)+len(bound) == 0:
		return Decision{State: StateNone, Reason: fmt.Sprintf("the AMD GPUs of this machine are another driver's: %s", describe(foreign)),
			Remedies: []string{
				fmt.Sprintf("give one back: echo %s | sudo tee /sys/bus/pci/devices/%s/driver/unbind", foreign[0].PCI, foreign[0].PCI),
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

// split tells the GPUs that no driver serves from those of amdgpu and those of
// other drivers, such as vfio-pci, which somebody meant for a VM.
func (f DriverFacts) split() (free, bound, foreign []PCIGPU) {
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

// describe names GPUs by address, with the driver where it is another's.
func describe(gpus []PCIGPU) string {
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

// KFDDevice is the compute interface of AMD GPUs as LXD gives it to a container:
// for the group video, which has this number on every Debian and Ubuntu, and not
// required, else the container does not start while the host has no kfd.
const KFDDevice = "kfd unix-char source=/dev/kfd path=/dev/kfd gid=44 required=false"

// decideContainer never touches the driver: the kernel is the host's.
func decideContainer(f DriverFacts, w Wanted) Decision {
	host := "the host"
	if f.Where == LXD {
		host = "the LXD host"
	}
	d := Decision{State: StateContainer}
	switch {
	case f.Module.Loaded:
		version := ""
		if f.Module.Version != "" {
			version = " " + f.Module.Version
		}
		d.Reason = fmt.Sprintf("%s has the driver amdgpu%s loaded, and it alone decides on it", host, version)
	case f.Where == LXD:
		d.Reason = "the driver is the LXD host's, and it has none loaded"
		d.Remedies = []string{
			"on the LXD host: sudo modprobe amdgpu",
			"if it says that there is no such module, on the LXD host: sudo apt-get install linux-modules-extra-$(uname -r)",
			"then on the LXD host: lxc config device add " + f.Hostname + " " + KFDDevice,
		}
	default:
		d.Reason = "the driver is the host's, and it has none loaded"
		d.Remedies = []string{"on the host: sudo modprobe amdgpu"}
	}
	if w.InstallDriver == DriverAlways {
		d.Reason += "; install-driver=always can do nothing in a container"
		d.Remedies = append(d.Remedies, w.set("install-driver=auto"))
	}
	return d
}
