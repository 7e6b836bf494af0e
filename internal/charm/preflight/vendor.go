package preflight

import "github.com/fourdollars/concourse-ci-machine/internal/gpu"

// vendor checks the software for the GPUs of one vendor.
type vendor interface {
	// software checks the container toolkit and the compilers of the machine.
	software(p *preflight) []Check
	// sources returns the package repositories that the options require.
	sources(p *preflight) []source
}

// vendors registers the checks for all gpu.Vendors.
var vendors = map[gpu.Vendor]vendor{gpu.AMD: amdVendor{}, gpu.NVIDIA: nvidiaVendor{}}
