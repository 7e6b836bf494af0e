package worker

import (
	"context"
	"strings"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/config"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/machine"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/rocm"
	"concourse-ci-machine/internal/role"
	"concourse-ci-machine/internal/status"
)

// wantsAMD reports whether AMD's driver is the unit's business.
func wantsAMD(c config.Config) bool { return c.ComputeRuntime == "rocm" || c.ComputeRuntime == "auto" }

// observeDriver looks at the machine's driver for AMD GPUs. With
// compute-runtime=auto a machine without one has nothing to decide.
func (o *Observed) observeDriver(ctx context.Context, h host.Host) error {
	if o.Facts.Role == model.WebRole || model.Leaving(o.Event) || !wantsAMD(o.Config) {
		return nil
	}
	f, err := rocm.ObserveDriver(ctx, h, ROCmMachine(o.Machine, o.Arch))
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
func ROCmMachine(m machine.Machine, arch string) rocm.Machine {
	return rocm.Machine{Hostname: m.Hostname, Container: m.Container, Distro: m.Distro, Series: m.Series, Arch: arch}
}

// DriverWanted is what the options say of it.
func DriverWanted(c config.Config, unit string) rocm.Wanted {
	app, _, _ := strings.Cut(unit, "/")
	return rocm.Wanted{App: app, Unit: unit, Version: c.ROCmVersion, BaseURL: c.ROCmBaseURL, Usecases: c.ROCmUsecases,
		InstallDriver: c.InstallDriver, AllowDriverChange: c.AllowDriverChange, AllowReboot: c.AllowReboot,
		ModuleParams: c.ModuleParams, DeviceMode: c.DeviceMode, Tools: c.ROCmTools, MinDisk: c.MinDisk}
}

// desireDriver is the driver, user space and rules that were decided on, before
// the GPUs that depend on them. What is wrong with them blocks the unit only
// where its tasks can't compute for it, and is a remark elsewhere.
func desireDriver(d *Desired, o Observed, g GPUs) {
	if o.Driver == nil || g.Vendor == gpu.NVIDIA {
		return
	}
	w := DriverWanted(o.Config, o.Facts.Unit)
	decision := rocm.Decide(*o.Driver, w)
	install, err := rocm.Install(decision, *o.Driver, w, rocm.Environment{Seen: o.Install, Proxies: role.ProxyOf(o.Facts, o.Config), Now: o.Now})
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
func driverCause(decision rocm.Decision, w rocm.Wanted, computes bool) *status.Cause {
	switch {
	case decision.Reboot != "": // said when the hook knows whether it asks for it
		return nil
	case decision.State == rocm.StateContainer:
		if w.InstallDriver == rocm.DriverAlways {
			return &status.Cause{Kind: status.Active, Text: "install-driver=always does nothing: the host owns the driver of this container"}
		}
		return nil // the missing nodes say what to run on the host
	case decision.Driver && decision.State != rocm.StateUnsupported, decision.State == rocm.StateSupported && len(decision.Remedies) == 0:
		return nil
	case computes:
		return &status.Cause{Kind: status.Active, Text: decision.Text()}
	}
	return &status.Cause{Kind: status.Blocked, Text: decision.Text()}
}
