package preflight

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
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
	o := worker.Observed{Observed: role.Observed{Config: p.cfg, Machine: p.machine}, GPUs: inv}
	if err := o.ReadSpecs(p.Host.Root); err != nil {
		return []Check{failure("gpu", "look at /etc/cdi", "%v", err)}
	}
	o.Known, err = worker.ReadKnown(p.Host.Root)
	if err != nil && !errors.Is(err, fs.ErrPermission) { // without root the file is ignored
		return []Check{failure("gpu", "look at "+worker.GPUsFile, "%v", err)}
	}
	g := worker.DecideGPUs(o)
	checks := p.nodes(g, inv)
	for _, c := range g.Causes {
		remedy, make := strings.Join(c.Commands, ", "), failure
		if c.Kind == status.Active {
			make = warn
		}
		checks = append(checks, make("gpu", remedy, "%s", c.Describe()))
	}
	if len(g.Chosen) > 0 {
		checks = append(checks, ok("gpu", "%d x %s for tasks", len(g.Chosen), g.Vendor.Label()))
	}
	checks = append(checks, p.groups())
	if v, ok := vendors[g.Vendor]; ok {
		checks = append(checks, v.software(p)...)
	}
	return checks
}

// nodes reports the device nodes with number, mode and group.
func (p *preflight) nodes(g worker.GPUs, inv gpu.Inventory) []Check {
	var checks []Check
	if g.Vendor.Has(gpu.KFDNode) && inv.KFD.Usable() {
		n := inv.KFD.Node
		checks = append(checks, ok("node "+n.Path, "%s, mode %04o, group %d", n.Number(), n.Mode, n.GID))
	}
	for _, one := range g.All {
		checks = append(checks, ok(
			"node "+one.Render.Path, "%s, mode %04o, group %d: %s", one.Render.Number(), one.Render.Mode,
			one.Render.GID, one.Model))
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
		return warn("groups", "run: sudo groupadd --system "+missing[0], "no group %s",
			strings.Join(missing, " and no group "))
	}
	return ok("groups", "%s", strings.Join(found, ", "))
}
