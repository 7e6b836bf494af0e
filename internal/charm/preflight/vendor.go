package preflight

import (
	"cmp"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/nvidia"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// vendor checks the software for the GPUs of one vendor.
type vendor interface {
	// software checks the container toolkit and the compilers of the machine.
	software(p *preflight) []Check
	// sources returns the package repositories that the options require.
	sources(p *preflight) []source
}

// vendors registers the checks for all gpu.Vendors.
var vendors = map[gpu.Vendor]vendor{gpu.AMD: amdVendor{}, gpu.NVIDIA: nvidiaVendor{}}

type amdVendor struct{}

func (amdVendor) software(p *preflight) []Check {
	return append([]Check{p.toolkitAMD(), p.toolchain()}, p.profile()...)
}

func (amdVendor) sources(p *preflight) []source {
	mode := p.cfg.Driver.AMDContainerToolkit
	if mode == amd.ToolkitSkip {
		return nil
	}
	s, err := amd.ObserveToolkit(p.Host.Root)
	return []source{{
		"AMD's packages", cmp.Or(p.cfg.Driver.ROCmBaseURL, amd.BaseURL),
		err == nil && mode == amd.ToolkitRequired && !s.Package.Installed(),
		proxies + "; or set rocm-base-url to a mirror",
	}}
}

func (p *preflight) toolkitAMD() Check {
	const name = "toolkit"
	s, err := amd.ObserveToolkit(p.Host.Root)
	switch {
	case err != nil:
		return warn(name, "run: dpkg --audit", "%v", err)
	case p.cfg.Driver.AMDContainerToolkit == amd.ToolkitSkip:
		return ok(name, "amd-container-toolkit is skip; tasks need none")
	case s.Package.Installed():
		return ok(name, "%s %s", amd.ToolkitPackage, s.Package.Version)
	case s.Package.Broken():
		return warn(name, "run: sudo dpkg --configure -a", "%s is %s: an installation did not finish",
			amd.ToolkitPackage, s.Package.Status)
	case s.Attempt != nil && s.Attempt.Unreachable && p.cfg.Driver.AMDContainerToolkit == amd.ToolkitAuto:
		return ok(name, "%s; tasks get their GPUs without it", s.Attempt.Text())
	case s.Attempt != nil:
		return warn(name, "let the machine reach it, or set amd-container-toolkit=skip", "%s", s.Attempt.Text())
	}
	return warn(name, "the next hook tries it; tasks get their GPUs without", "%s is not installed", amd.ToolkitPackage)
}

type nvidiaVendor struct{}

func (nvidiaVendor) software(p *preflight) []Check { return []Check{p.toolkitNVIDIA()} }

func (nvidiaVendor) sources(p *preflight) []source {
	s, err := nvidia.Observe(p.Host.Root)
	return []source{{
		"NVIDIA's packages", nvidia.BaseURL, err == nil && !s.Tool,
		proxies + "; or install nvidia-container-toolkit by hand",
	}}
}

func (p *preflight) toolkitNVIDIA() Check {
	const name = "toolkit"
	s, err := nvidia.Observe(p.Host.Root)
	switch {
	case err != nil:
		return warn(name, "run: dpkg --audit", "%v", err)
	case s.Package.Broken():
		return warn(name, "run: sudo dpkg --configure -a", "%s is %s: an installation did not finish",
			nvidia.Package, s.Package.Status)
	case s.Attempt != nil:
		return failure(name, "the next hook tries again", "%s", s.Attempt.Text())
	case s.Foreign:
		return ok(name, "%s is not the charm's, and is kept", nvidia.Path)
	case s.Package.Installed():
		return ok(name, "%s %s", nvidia.Package, s.Package.Version)
	case s.Tool:
		return ok(name, "nvidia-ctk, not from a package of NVIDIA's repository")
	}
	return warn(name, "the next hook installs it", "nvidia-ctk is missing")
}
