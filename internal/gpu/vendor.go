package gpu

import (
	"slices"

	"concourse-ci-machine/internal/base/wellknown"
)

// Vendor is who made a GPU, from its PCI vendor id.
type Vendor string

// The vendors whose GPUs can count, in the order in which they are listed.
const (
	AMD    Vendor = "amd"
	NVIDIA Vendor = "nvidia"
)

// Traits is what differs from vendor to vendor and needs no code of its own.
type Traits struct {
	Label   string // as status texts write it
	Runtime string // value of the option compute-runtime, and of the tag
	PCI     uint16 // PCI vendor id
	Module  string // kernel module of the driver

	Kind    string // vendor and class of its CDI devices
	Spec    string // file of their CDI description
	ByID    bool   // the description names GPUs by unique id, too, as GPU-<id>
	Visible string // variable by which a task chooses among its GPUs
}

// The CDI descriptions: AMD's is the charm's own, NVIDIA's is its tool's.
const (
	AMDKind, AMDSpec       = wellknown.AMDKind, wellknown.AMDSpec
	NVIDIAKind, NVIDIASpec = "nvidia.com/gpu", "/etc/cdi/nvidia.json"
)

var traits = map[Vendor]Traits{
	AMD: {Label: "AMD", Runtime: "rocm", PCI: 0x1002, Module: "amdgpu", Kind: AMDKind, Spec: AMDSpec, ByID: true,
		Visible: wellknown.AMDVisible},
	NVIDIA: {Label: "NVIDIA", Runtime: "cuda", PCI: 0x10de, Module: "nvidia", Kind: NVIDIAKind, Spec: NVIDIASpec,
		Visible: "NVIDIA_VISIBLE_DEVICES"},
}

// Vendors are all of them.
func Vendors() []Vendor { return []Vendor{AMD, NVIDIA} }

// Traits is the vendor's row; the zero value for any other vendor.
func (v Vendor) Traits() Traits { return traits[v] }

// Label is the vendor as status texts write it; "" for any other vendor.
func (v Vendor) Label() string { return traits[v].Label }

// OfRuntime is the vendor that a value of compute-runtime names, "" for none or auto.
func OfRuntime(runtime string) Vendor {
	return firstVendor(func(t Traits) bool { return t.Runtime == runtime })
}

func vendorOf(pci uint16) Vendor {
	return firstVendor(func(t Traits) bool { return t.PCI == pci })
}

func firstVendor(is func(Traits) bool) Vendor {
	all := Vendors()
	if i := slices.IndexFunc(all, func(v Vendor) bool { return is(traits[v]) }); i >= 0 {
		return all[i]
	}
	return ""
}
