package preflight

import "github.com/fourdollars/concourse-ci-machine/internal/charm/nvidia"

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
