package worker

import (
	"cmp"
	"context"
	"strings"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// amdVendor implements vendor.
type amdVendor struct{}

func (amdVendor) observe(ctx context.Context, o *Observed, h host.Host) (err error) {
	if o.Toolkit, err = amd.ObserveToolkit(h.Root); err != nil {
		return jujuerrors.Annotate(err, "cannot observe the AMD container toolkit")
	}
	return o.observeDriver(ctx, h)
}

func (amdVendor) readSpec(*Observed, host.Root) error { return nil }

func (amdVendor) refresh(Observed, host.Root) ([]plan.Resource, error) { return nil, nil }

func (amdVendor) explainUnit(g *GPUs, o Observed) { explainKFD(g, o.GPUs.KFD, o.Machine) }

func (amdVendor) explainChosen(g *GPUs, o Observed) { explainGroups(g, o.GPUs.KFD, o.Machine) }

func explainKFD(g *GPUs, kfd gpu.KFD, m machine.Machine) {
	switch {
	case kfd.Usable():
	case !m.LXD():
		g.cause(status.Block("%s", kfd.Text()).Explain("the kernel requires CONFIG_HSA_AMD").
			Run("sudo modprobe amdgpu"))
	case kfd.State == gpu.KFDAbsent:
		c := status.Block("no /dev/kfd").
			Fix(m.Manager.On(m.Manager.PassKFD()))
		if m.NoProfiles {
			c = c.Explain("Juju 4 has no LXD profiles of charms; scripts/pass-gpu.sh of the charm's project passes " +
				"it with the GPU")
		}
		g.cause(c)
	case kfd.State == gpu.KFDWrongMajor:
		g.cause(status.Block("%s", kfd.Text()).Fix(m.Manager.On(m.Manager.Restart())))
	default:
		g.cause(closedNode("/dev/kfd", kfd.Text(), m.Manager.On(m.Manager.OpenKFD(m.KFDVerb()))))
	}
}

// explainGroups finds nodes that unprivileged tasks of an LXD unit cannot open. LXD creates
// nodes as root:root by default, and the user namespace of a Concourse task has no number
// for the group root. On other machines the wrapper creates a separate node for the task.
// An unprivileged LXD container may not do that.
func explainGroups(g *GPUs, kfd gpu.KFD, m machine.Machine) {
	if !m.LXD() || m.MakesNodes {
		return
	}
	closed := func(n host.Node) string {
		switch {
		case n.Any || n.Mode&0o006 == 0o006:
		case n.GID == 0:
			return "its group is root"
		case n.GID == gpu.OverflowID:
			return "its group has no number in this container"
		}
		return ""
	}
	for _, one := range g.Chosen {
		if why := closed(one.Render); why != "" {
			g.cause(closedNode(one.Render.Path, why, m.Manager.On(m.Manager.OpenGPU())))
		}
	}
	if why := closed(kfd.Node); why != "" {
		g.cause(closedNode("/dev/kfd", why, m.Manager.On(m.Manager.OpenKFD(m.KFDVerb()))))
	}
}

// closedNode returns the cause for a node that tasks cannot open.
func closedNode(node, why, remedy string) status.Cause {
	return status.Block("tasks can't open %s", node).Explain("%s", why).Fix(remedy)
}

// desire returns the driver and the toolkit.
func (amdVendor) desire(o Observed, g GPUs, w *Worker) part {
	var driver, toolkit part
	driver, w.Driver = desireDriver(o, g)
	if g.Vendor != gpu.AMD || len(g.All) == 0 {
		return driver
	}
	c := o.Config.Driver
	want := amd.Toolkit{
		Mode: c.AMDContainerToolkit, Version: c.AMDToolkitVersion, BaseURL: c.ROCmBaseURL,
		Series: o.Machine.Series, Arch: o.Arch, Proxies: role.ProxyOf(o.Facts, o.Config), Seen: o.Toolkit,
		Now: o.Now}.Desire()
	toolkit.add(want.Resources...)
	toolkit.cause(rankToolkit, status.Warn("%s", want.Note))
	toolkit.cause(rankToolkit, status.Block("%s", want.Blocked))
	w.Toolkit = gpu.AMD
	driver.join(toolkit)
	return driver
}

// describe returns the description of the unit's AMD GPUs.
func (amdVendor) describe(o Observed, g GPUs) (p part) {
	if g.Vendor != gpu.AMD || len(g.Chosen) == 0 {
		p.add(cdi.Absent{Why: "tasks get no AMD GPU"})
		return p
	}
	spec, left, err := cdi.Resource(g.All, o.GPUs.KFD)
	if err != nil {
		return part{err: err}
	}
	for _, l := range left {
		p.cause(rankSpec, status.Block("left out of %s: %s", cdi.Path, l))
	}
	p.add(cdi.Keep{}, spec)
	return p
}

// wrap adds the architectures of the GPUs to build for, and where ROCm is in images.
func (amdVendor) wrap(c *oci.Config, o Observed, g GPUs) (err error) {
	c.RootfsEnv = map[string]map[string]string{amd.Home: amd.TaskEnv()}
	var gfx []string
	for _, one := range g.Chosen {
		gfx = append(gfx, one.GFX)
	}
	if o.Config.GPU.TaskEnv["HIP_ARCHES"] == "" {
		var archs []string
		if archs, err = amd.HIPArches(gfx); len(archs) > 0 {
			c.Env["HIP_ARCHES"] = strings.Join(archs, ",")
		}
	}
	if o.Config.GPU.HSAOverrideAuto {
		version, overrideErr := amd.OverrideGFX(gfx)
		if err = cmp.Or(overrideErr, err); version != "" {
			c.Env["HSA_OVERRIDE_GFX_VERSION"] = version
		}
	}
	return err
}

// watch adds the owner of AMD GPUs, which runs as root and starts the watcher after each
// reading.
func (amdVendor) watch(l *resource.PebbleLayer, o Observed, _ GPUs) {
	l.Command = append(l.Command, "--service.report="+quarantine.File)
	owner := []string{role.ExporterBin, "write-gpus", role.GPUReport, "--path.root=/", "--vendor=amd"}
	if o.Config.GPU.Metrics.Usage {
		l.Command = append(l.Command, "--usage.report="+role.UsageReport)
		owner = append(owner, "--usage.report="+role.UsageReport)
	} else {
		l.Command = append(l.Command, "--collect.usage=false")
	}
	l.Helper, l.HelperCommand = role.GPUService, append(owner, "--", dispatchBin, "gpu", "watch")
	if !o.Config.GPU.Metrics.PCIeBandwidth {
		l.Command = append(l.Command, "--collect.pcie-bandwidth=false")
	}
}

// uninstall removes what the charm installed for AMD GPUs, including user space and driver.
// The CDI description is removed separately, with the last GPU of the tasks.
func (amdVendor) uninstall(o role.Observed, why string) []plan.Resource {
	rs := amd.Uninstall(amd.DriverFacts{Kernel: o.Kernel}, amd.Environment{Seen: o.Install}, why)
	return append(append(rs, resource.AllAbsent(why, amd.ToolkitFiles()...)...), amd.ClearToolkitAttempt(why),
		amd.UninstallToolkit(why))
}

// notes returns the last attempts. A repository that is unreachable is only in check-status:
// tasks get their GPUs without the toolkit.
func (amdVendor) notes(r host.Root, _ Worker, failed bool) (texts, details []string) {
	last := amd.ReadAttempt(r)
	if text := amd.ToolkitNote(last); text != "" {
		texts = append(texts, text)
	}
	if a := amd.ObserveInstall(r).Attempt; failed && a != nil {
		texts = append(texts, a.Text())
	}
	if last != nil && last.Unreachable {
		details = append(details, last.Text()+"; tasks get their GPUs without it")
	}
	return texts, details
}

// wantsAMD reports whether the options can require AMD's driver.
func wantsAMD(c config.Config) bool {
	return c.GPU.ComputeRuntime.Vendor() == gpu.AMD || c.GPU.ComputeRuntime == config.RuntimeAuto
}

// observeDriver reads the state of AMD's driver. With compute-runtime=auto a machine
// without a driver needs no decision.
func (o *Observed) observeDriver(ctx context.Context, h host.Host) error {
	if o.Facts.Role == model.WebRole || model.Leaving(o.Event) || !wantsAMD(o.Config) {
		return nil
	}
	f, err := amd.ObserveDriver(ctx, h, AMDMachine(o.Machine, o.Arch))
	if err != nil {
		return jujuerrors.Annotate(err, "cannot observe the driver of AMD GPUs")
	}
	if o.Config.GPU.ComputeRuntime == config.RuntimeAuto && len(f.GPUs) == 0 {
		return nil
	}
	o.Driver = &f
	return nil
}

// AMDMachine returns the machine in the form of package amd.
func AMDMachine(m machine.Machine, arch string) amd.Machine {
	return amd.Machine{Manager: m.Manager, Container: m.Container, Distro: m.Distro, Series: m.Series, Arch: arch}
}

// DriverOptions returns the options for AMD's driver and user space.
func DriverOptions(c config.Driver, commands wellknown.Commands) amd.Wanted {
	return amd.Wanted{Commands: commands, Version: c.ROCmVersion, BaseURL: c.ROCmBaseURL, Usecases: c.ROCmUsecases,
		InstallDriver: c.InstallDriver, AllowReboot: c.AllowReboot,
		ModuleParams: c.AMDGPUModuleParams}
}

// desireDriver returns the driver, user space and rules, before the GPUs that depend on
// them. A problem blocks the unit only if its tasks cannot compute. Otherwise it is a
// warning. The decision is nil if the unit needs no AMD driver.
func desireDriver(o Observed, g GPUs) (p part, d *Driver) {
	if o.Driver == nil || g.Vendor != "" && g.Vendor != gpu.AMD {
		return p, nil
	}
	w := DriverOptions(o.Config.Driver, o.Facts.Commands())
	decision := amd.Decide(*o.Driver, w)
	install, err := amd.Install(decision, *o.Driver, w, amd.Environment{
		Seen: o.Install, Proxies: role.ProxyOf(o.Facts, o.Config), Now: o.Now,
	})
	if err != nil {
		p.cause(rankInstall, status.Block("%s", err))
		return p, nil
	}
	p.add(install.Resources...)
	d = &Driver{Decision: decision, Facts: *o.Driver, Wanted: w, HasGPUs: g.Vendor == gpu.AMD && len(g.Chosen) > 0}
	p.cause(rankDriver, driverCause(decision, w, d.HasGPUs))
	p.cause(rankInstall, status.Warn("%s", install.Note))
	for _, remark := range install.Remarks {
		p.cause(rankInstall, remark)
	}
	return p, d
}

// driverCause returns the cause for a decision. It is empty if the driver works, or if the
// causes of the GPUs or the plan report the problem already.
func driverCause(decision amd.Decision, w amd.Wanted, computes bool) (none status.Cause) {
	switch {
	case decision.Reboot != "": // the hook reports it once it decided on the reboot
		return none
	case decision.State == amd.StateContainer:
		if w.InstallDriver.Always() {
			return status.Warn("install-driver=%s does nothing: the host owns the driver of this container",
				w.InstallDriver)
		}
		return none // the cause for the missing nodes has the command for the host
	case decision.Driver && decision.State != amd.StateUnsupported,
		decision.State == amd.StateSupported && len(decision.Remedies) == 0:
		return none
	case computes:
		return decision.Cause().As(status.Active)
	}
	return decision.Cause()
}

// LeasesForEngines returns the wrapper's settings on a machine without a unit: each chosen
// AMD GPU is leased to containers that request one. The caller adds the runtime.
func LeasesForEngines(inv gpu.Inventory, chosen []gpu.GPU, links [][]gpu.Link) oci.Config {
	g := GPUs{Vendor: gpu.AMD, All: inv.GPUsOf(gpu.AMD), Chosen: chosen}
	t := g.Vendor.Traits()
	var o Observed
	o.GPUs, o.Links = inv, links
	o.Config.GPU.Sharing, o.Config.GPU.FixedClocks = config.Exclusive, true // for runs that measure
	return oci.Config{
		Containers: oci.Requested, Specs: []string{t.Spec}, GPUs: taskGPUs(o, g), Visible: []string{t.Visible},
		Leases: &oci.Leases{Dir: lease.DefaultDir, Links: linkWeights(o, chosen)},
	}
}
