package gpu

import (
	"maps"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// Vendor is the maker of a GPU, from its PCI vendor id.
type Vendor string

// maker reads what only one vendor's GPUs have. Each vendor has a file with its maker.
type maker interface {
	traits() *Traits
	// identify sets the name and the unique id that a GPU itself has.
	identify(r files, g *GPU)
	// complete adds the values of the vendor's driver, after all PCI functions are judged.
	complete(d *discovery)
	// readNames reads the vendor's own list of models.
	readNames(r host.Root, want names)
	// model returns the name of a common model, "" for others.
	model(device uint16, revision uint8) string
}

// makers registers the vendors. A vendor is also registered in internal/charm/worker,
// internal/charm/preflight and internal/exporter/monitor. Tests there fail if it is missing.
var makers = map[Vendor]maker{AMD: amd{}, NVIDIA: nvidia{}}

var vendors = slices.Sorted(maps.Keys(makers))

// Vendors returns all supported vendors, in their order in lists.
func Vendors() []Vendor { return slices.Clone(vendors) }

// Traits holds the values that differ between vendors.
type Traits struct {
	Label   string // in status texts
	Runtime string // value of the option compute-runtime, and of the tag
	PCI     uint16 // PCI vendor id
	Module  string // kernel module of the driver
	// Drivers has the kernel drivers with which a task can compute, and the DRM drivers of
	// their nodes.
	Drivers map[string]string

	Kind    string // vendor and class of its CDI devices
	Spec    string // file of their CDI description
	ByID    bool   // the description also names GPUs by unique id, as GPU-<id>
	Visible string // variable with which a task selects among its GPUs

	Features []Feature
}

// Feature is a property of GPUs that only some vendors have. A feature belongs to one
// vendor, because GPUs are numbered by vendor.
type Feature string

// The features.
const (
	KFDNode    Feature = "kfd"        // tasks compute through /dev/kfd and the render node; KFD reports architectures
	OwnSpec    Feature = "own-spec"   // the charm writes their CDI description, and no tool of the vendor
	Quarantine Feature = "quarantine" // the kernel reports faults, so that a faulty GPU is quarantined
	Clocks     Feature = "clocks"     // the driver can fix the clocks for a task that measures
	Engines    Feature = "engines"    // the wrapper gives them to other container engines
	Kubernetes Feature = "kubernetes" // the charm offers them to a kubelet
)

// Has reports whether the vendor's GPUs have a feature.
func (v Vendor) Has(f Feature) bool { return slices.Contains(v.Traits().Features, f) }

// VendorWith returns the vendor with a feature.
func VendorWith(f Feature) Vendor {
	return firstVendor(func(t Traits) bool { return slices.Contains(t.Features, f) })
}

// Traits returns the vendor's values; the zero value for any other vendor.
func (v Vendor) Traits() Traits {
	if m, ok := makers[v]; ok {
		return *m.traits()
	}
	return Traits{}
}

// Label returns the vendor's name in status texts; "" for any other vendor.
func (v Vendor) Label() string { return v.Traits().Label }

// OfRuntime returns the vendor of a value of compute-runtime, "" for none or auto.
func OfRuntime(runtime string) Vendor {
	return firstVendor(func(t Traits) bool { return t.Runtime == runtime })
}

// Runtimes returns the values of compute-runtime that name a vendor, sorted.
func Runtimes() (all []string) {
	for _, v := range Vendors() {
		all = append(all, v.Traits().Runtime)
	}
	slices.Sort(all)
	return all
}

func vendorOf(pci uint16) Vendor { return firstVendor(func(t Traits) bool { return t.PCI == pci }) }

func firstVendor(is func(Traits) bool) Vendor {
	for _, v := range vendors {
		if is(v.Traits()) {
			return v
		}
	}
	return ""
}
