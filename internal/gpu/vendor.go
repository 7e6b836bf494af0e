package gpu

import (
	"slices"

	"concourse-ci-machine/internal/base/wellknown"
)

// Vendor is the maker of a GPU, from its PCI vendor id.
type Vendor string

// The supported vendors, in their order in lists.
const (
	AMD    Vendor = "amd"
	NVIDIA Vendor = "nvidia"
)

// Traits holds the values that differ between vendors.
type Traits struct {
	Label   string // in status texts
	Runtime string // value of the option compute-runtime, and of the tag
	PCI     uint16 // PCI vendor id
	Module  string // kernel module of the driver

	Kind    string // vendor and class of its CDI devices
	Spec    string // file of their CDI description
	ByID    bool   // the description also names GPUs by unique id, as GPU-<id>
	Visible string // variable with which a task selects among its GPUs
}

// The CDI descriptions: the charm writes AMD's, NVIDIA's tool writes NVIDIA's.
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

// Vendors returns all supported vendors.
func Vendors() []Vendor { return []Vendor{AMD, NVIDIA} }

// Traits returns the vendor's row; the zero value for any other vendor.
func (v Vendor) Traits() Traits { return traits[v] }

// Label returns the vendor's name in status texts; "" for any other vendor.
func (v Vendor) Label() string { return traits[v].Label }

// OfRuntime returns the vendor of a value of compute-runtime, "" for none or auto.
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
