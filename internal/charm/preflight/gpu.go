package preflight

import (
	"errors"
	"io/fs"
	"strings"

	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/charm/worker"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd"
	"concourse-ci-machine/internal/gpu/nvidia"
)

// gpus checks the GPUs of a unit that requires them.
func (p *preflight) gpus() []Check {
	if p.cfg.GPU.ComputeRuntime == config.RuntimeNone {
		return []Check{ok("gpu", "compute-runtime is none: tasks get no GPUs")}
	}
	inv, err := gpu.Discover(p.Host.Root)
	if err != nil {
		return []Check{failure("gpu", "run list-gpus", "%v", err)}
	}
	described, err := worker.NVIDIADevices(p.Host.Root)
	if err != nil {
		return []Check{failure("gpu", "look at "+gpu.NVIDIASpec, "%v", err)}
	}
	known, err := worker.ReadKnown(p.Host.Root)
	if err != nil && !errors.Is(err, fs.ErrPermission) { // without root the file is ignored
		return []Check{failure("gpu", "look at "+worker.GPUsFile, "%v", err)}
	}
	g := worker.DecideGPUs(p.cfg, inv, known, p.machine, described)
	checks := p.nodes(g, inv)
	for _, c := range g.Causes {
		text, remedy, _ := strings.Cut(c.Text, " — ")
		if c.Kind == status.Active {
			checks = append(checks, warn("gpu", remedy, "%s", text))
			continue
		}
		checks = append(checks, failure("gpu", remedy, "%s", text))
	}
	if len(g.Chosen) > 0 {
		checks = append(checks, ok("gpu", "%d x %s for tasks", len(g.Chosen), g.Vendor.Label()))
	}
	checks = append(checks, p.groups())
	if g.Vendor == gpu.AMD {
		checks = append(checks, p.toolkitAMD(), p.toolchain())
	}
	if g.Vendor == gpu.NVIDIA {
		checks = append(checks, p.toolkitNVIDIA())
	}
	return checks
}

// nodes reports the device nodes with number, mode and group.
func (p *preflight) nodes(g worker.GPUs, inv gpu.Inventory) []Check {
	var checks []Check
	if g.Vendor == gpu.AMD && inv.KFD.Usable() {
		n := inv.KFD.Node
		checks = append(checks, ok("node "+n.Path, "%s, mode %04o, group %d", n.Number(), n.Mode, n.GID))
	}
	for _, one := range g.All {
		checks = append(checks, ok(
			"node "+one.Render.Path, "%s, mode %04o, group %d: %s", one.Render.Number(), one.Render.Mode,
			one.Render.GID, one.Name,
		))
	}
	return checks
}

// groups checks the groups of GPU nodes. Tasks get the nodes without these groups. People
// and udev's rules need them.
func (p *preflight) groups() Check {
	data, err := p.Host.ReadFile("/etc/group")
	if err != nil {
		return warn("groups", "run: getent group video render", "/etc/group can't be read")
	}
	var missing, found []string
	for _, name := range []string{"video", "render"} {
		gid := ""
		for line := range strings.Lines(string(data)) {
			if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 4 && f[0] == name {
				gid = f[2]
			}
		}
		if gid == "" {
			missing = append(missing, name)
		} else {
			found = append(found, name+" "+gid)
		}
	}
	if len(missing) > 0 {
		return warn(
			"groups", "run: sudo groupadd --system "+missing[0], "there is no group %s",
			strings.Join(missing, " and no group "),
		)
	}
	return ok("groups", "%s", strings.Join(found, ", "))
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
		return warn(
			name, "run: sudo dpkg --configure -a", "%s is %s: an installation did not finish",
			amd.ToolkitPackage, s.Package.Status,
		)
	case p.cfg.Driver.AMDContainerToolkit == amd.ToolkitAuto && amd.MissingToolkit(p.machine.Series) != "":
		return ok(name, "%s", amd.MissingToolkit(p.machine.Series))
	case s.Attempt != nil && s.Attempt.Unreachable && p.cfg.Driver.AMDContainerToolkit == amd.ToolkitAuto:
		return ok(name, "%s; tasks get their GPUs without it", s.Attempt.Text())
	case s.Attempt != nil:
		return warn(name, "let the unit reach it, or set amd-container-toolkit=skip", "%s", s.Attempt.Text())
	}
	return warn(name, "the next hook tries it; tasks get their GPUs without", "%s is not installed", amd.ToolkitPackage)
}

func (p *preflight) toolkitNVIDIA() Check {
	const name = "toolkit"
	s, err := nvidia.Observe(p.Host.Root)
	switch {
	case err != nil:
		return warn(name, "run: dpkg --audit", "%v", err)
	case s.Package.Broken():
		return warn(
			name, "run: sudo dpkg --configure -a", "%s is %s: an installation did not finish",
			nvidia.Package, s.Package.Status,
		)
	case s.Attempt != nil:
		return failure(name, "the next hook tries again", "%s", s.Attempt.Text())
	case s.Foreign:
		return ok(name, "%s is not the charm's, and is left as it is", nvidia.Path)
	case s.Package.Installed():
		return ok(name, "%s %s", nvidia.Package, s.Package.Version)
	case s.Tool:
		return ok(name, "nvidia-ctk, not from a package of NVIDIA's repository")
	}
	return warn(name, "the next hook installs it", "there is no nvidia-ctk")
}
