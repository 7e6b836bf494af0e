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

// wantsAMD reports whether AMD's driver is the unit's business.
func wantsAMD(c config.Config) bool { return c.ComputeRuntime == "rocm" || c.ComputeRuntime == "auto" }

// observeDriver looks at the machine's driver for AMD GPUs. With
// compute-runtime=auto a machine without one has nothing to decide.
func (o *Observed) observeDriver(ctx context.Context, h host.Host) error {
	if o.Facts.Role == model.WebRole || model.Leaving(o.Event) || !wantsAMD(o.Config) {
		return nil
	}
	f, err := amd.ObserveDriver(ctx, h, ROCmMachine(o.Machine, o.Arch))
	if err != nil {
		return jujuerrors.Annotate(err, "cannot observe the driver of AMD GPUs")
	}
	if o.Config.ComputeRuntime == "auto" && len(f.GPUs) == 0 {
		return nil
	}
	o.Driver = &f
	return nil
}

// ROCmMachine is the machine as package rocm takes it.
func ROCmMachine(m machine.Machine, arch string) amd.Machine {
	return amd.Machine{Hostname: m.Hostname, Container: m.Container, Distro: m.Distro, Series: m.Series, Arch: arch}
}

// DriverWanted is what the options say of it.
func DriverWanted(c config.Config, unit string) amd.Wanted {
	app, _, _ := strings.Cut(unit, "/")
	return amd.Wanted{App: app, Unit: unit, Version: c.ROCmVersion, BaseURL: c.ROCmBaseURL, Usecases: c.ROCmUsecases,
		InstallDriver: c.InstallDriver, AllowDriverChange: c.AllowDriverChange, AllowReboot: c.AllowReboot,
		ModuleParams: c.AMDGPUModuleParams, DeviceMode: c.GPUDeviceMode, Tools: c.ROCmTools, MinDisk: c.MinDisk}
}

// desireDriver is the driver, user space and rules that were decided on, before
// the GPUs that depend on them. What is wrong with them blocks the unit only
// where its tasks can't compute for it, and is a remark elsewhere.
func desireDriver(d *Desired, o Observed, g GPUs) {
	if o.Driver == nil || g.Vendor == gpu.NVIDIA {
		return
	}
	w := DriverWanted(o.Config, o.Facts.Unit)
	decision := amd.Decide(*o.Driver, w)
	install, err := amd.Install(decision, *o.Driver, w, amd.Environment{Seen: o.Install, Proxies: role.ProxyOf(o.Facts, o.Config), Now: o.Now})
	if err != nil {
		d.Causes = append(d.Causes, status.Cause{Kind: status.Blocked, Text: err.Error()})
		return
	}
	d.Resources = append(d.Resources, install.Resources...)
	computes := g.Vendor == gpu.AMD && len(g.Chosen) > 0
	d.Driver = &Driver{Decision: decision, Facts: *o.Driver, Wanted: w, Computes: computes}
	if cause := driverCause(decision, w, computes); cause != nil {
		d.Causes = append([]status.Cause{*cause}, d.Causes...) // before what follows from it
	}
	if install.Note != "" {
		d.Causes = append(d.Causes, status.Cause{Kind: status.Active, Text: install.Note})
	}
	for _, r := range install.Remarks {
		d.Causes = append(d.Causes, status.Cause{Kind: status.Active, Text: r})
	}
}

// driverCause is what the status says of a decision: nothing where all is well,
// or where the GPUs' own causes or the plan say it already.
func driverCause(decision amd.Decision, w amd.Wanted, computes bool) *status.Cause {
	switch {
	case decision.Reboot != "": // said when the hook knows whether it asks for it
		return nil
	case decision.State == amd.StateContainer:
		if w.InstallDriver == amd.DriverAlways {
			return &status.Cause{Kind: status.Active, Text: "install-driver=always does nothing: the host owns the driver of this container"}
		}
		return nil // the missing nodes say what to run on the host
	case decision.Driver && decision.State != amd.StateUnsupported, decision.State == amd.StateSupported && len(decision.Remedies) == 0:
		return nil
	case computes:
		return &status.Cause{Kind: status.Active, Text: decision.Text()}
	}
	return &status.Cause{Kind: status.Blocked, Text: decision.Text()}
}
