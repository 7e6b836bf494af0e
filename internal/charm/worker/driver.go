package worker

import (
	"context"
	"strings"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/machine"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd"
)

// wantsAMD reports whether the options can require AMD's driver.
func wantsAMD(c config.Config) bool {
	return c.GPU.ComputeRuntime == config.RuntimeROCm || c.GPU.ComputeRuntime == config.RuntimeAuto
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
	return amd.Machine{Hostname: m.Hostname, Container: m.Container, Distro: m.Distro, Series: m.Series, Arch: arch}
}

// DriverOptions returns the options for AMD's driver and user space.
func DriverOptions(c config.Driver, unit string) amd.Wanted {
	app, _, _ := strings.Cut(unit, "/")
	return amd.Wanted{App: app, Unit: unit, Version: c.ROCmVersion, BaseURL: c.ROCmBaseURL, Usecases: c.ROCmUsecases,
		InstallDriver: c.InstallDriver, AllowDriverChange: c.AllowDriverChange, AllowReboot: c.AllowReboot,
		ModuleParams: c.AMDGPUModuleParams, DeviceMode: c.GPUDeviceMode, Tools: c.ROCmTools, MinDisk: c.MinDisk}
}

// desireDriver returns the driver, user space and rules, before the GPUs that depend on
// them. A problem blocks the unit only if its tasks cannot compute. Otherwise it is a
// warning. The decision is nil if the unit needs no AMD driver.
func desireDriver(o Observed, g GPUs) (p part, d *Driver) {
	if o.Driver == nil || g.Vendor == gpu.NVIDIA {
		return p, nil
	}
	w := DriverOptions(o.Config.Driver, o.Facts.Unit)
	decision := amd.Decide(*o.Driver, w)
	install, err := amd.Install(decision, *o.Driver, w, amd.Environment{
		Seen: o.Install, Proxies: role.ProxyOf(o.Facts, o.Config), Now: o.Now,
	})
	if err != nil {
		p.block(rankInstall, "%s", err)
		return p, nil
	}
	p.add(install.Resources...)
	d = &Driver{Decision: decision, Facts: *o.Driver, Wanted: w, HasGPUs: g.Vendor == gpu.AMD && len(g.Chosen) > 0}
	if cause := driverCause(decision, w, d.HasGPUs); cause != nil {
		p.cause(rankDriver, cause.Kind, cause.Text)
	}
	p.cause(rankInstall, status.Active, install.Note)
	for _, remark := range install.Remarks {
		p.cause(rankInstall, status.Active, remark)
	}
	return p, d
}

// driverCause returns the cause for a decision. It returns nil if the driver works, or if
// the causes of the GPUs or the plan report the problem already.
func driverCause(decision amd.Decision, w amd.Wanted, computes bool) *status.Cause {
	switch {
	case decision.Reboot != "": // the hook reports it once it decided on the reboot
		return nil
	case decision.State == amd.StateContainer:
		if w.InstallDriver == amd.DriverAlways {
			return &status.Cause{
				Kind: status.Active,
				Text: "install-driver=always does nothing: the host owns the driver of this container",
			}
		}
		return nil // the cause for the missing nodes has the command for the host
	case decision.Driver && decision.State != amd.StateUnsupported,
		decision.State == amd.StateSupported && len(decision.Remedies) == 0:
		return nil
	case computes:
		return &status.Cause{Kind: status.Active, Text: decision.Text()}
	}
	return &status.Cause{Kind: status.Blocked, Text: decision.Text()}
}
