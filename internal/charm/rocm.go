package charm

import (
	"context"
	"fmt"
	"strings"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/config"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/rocm"
)

// Driver is what was decided on the driver of AMD GPUs, and from what.
type Driver struct {
	Decision rocm.Decision
	Facts    rocm.DriverFacts
	Wanted   rocm.Wanted
	Computes bool // tasks get GPUs all the same
}

// wantsAMD reports whether AMD's driver is the unit's business.
func wantsAMD(c config.Config) bool { return c.ComputeRuntime == "rocm" || c.ComputeRuntime == "auto" }

// observeDriver looks at the machine's driver for AMD GPUs. With
// compute-runtime=auto a machine without one has nothing to decide.
func (c *Charm) observeDriver(ctx context.Context, o *Observed) error {
	if o.Facts.Role == WebRole || leaving(o.Event) || !wantsAMD(o.Config) {
		return nil
	}
	f, err := rocm.ObserveDriver(ctx, c.Host, o.Machine.rocm(o.Arch))
	if err != nil {
		return jujuerrors.Annotate(err, "cannot observe the driver of AMD GPUs")
	}
	if o.Config.ComputeRuntime == "auto" && len(f.GPUs) == 0 {
		return nil
	}
	o.Driver = &f
	return nil
}

func (m Machine) rocm(arch string) rocm.Machine {
	return rocm.Machine{Hostname: m.Hostname, Container: m.Container, Distro: m.Distro, Series: m.Series, Arch: arch}
}

// driverWanted is what the options say of it.
func driverWanted(c config.Config, unit string) rocm.Wanted {
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
	w := driverWanted(o.Config, o.Facts.Unit)
	decision := rocm.Decide(*o.Driver, w)
	install, err := rocm.Install(decision, *o.Driver, w, rocm.Environment{Seen: o.Install, Proxies: proxyOf(o.Facts, o.Config), Now: o.Now})
	if err != nil {
		d.Causes = append(d.Causes, Cause{Blocked, err.Error()})
		return
	}
	d.Resources = append(d.Resources, install.Resources...)
	computes := g.Vendor == gpu.AMD && len(g.Chosen) > 0
	d.Driver = &Driver{decision, *o.Driver, w, computes}
	if cause := driverCause(decision, w, computes); cause != nil {
		d.Causes = append([]Cause{*cause}, d.Causes...) // before what follows from it
	}
	if install.Note != "" {
		d.Causes = append(d.Causes, Cause{Active, install.Note})
	}
	for _, r := range install.Remarks {
		d.Causes = append(d.Causes, Cause{Active, r})
	}
}

// driverCause is what the status says of a decision: nothing where all is well,
// or where the GPUs' own causes or the plan say it already.
func driverCause(decision rocm.Decision, w rocm.Wanted, computes bool) *Cause {
	switch {
	case decision.Reboot != "": // said when the hook knows whether it asks for it
		return nil
	case decision.State == rocm.StateContainer:
		if w.InstallDriver == rocm.DriverAlways {
			return &Cause{Active, "install-driver=always does nothing: the host owns the driver of this container"}
		}
		return nil // the missing nodes say what to run on the host
	case decision.Driver && decision.State != rocm.StateUnsupported, decision.State == rocm.StateSupported && len(decision.Remedies) == 0:
		return nil
	case computes:
		return &Cause{Active, decision.Text()}
	}
	return &Cause{Blocked, decision.Text()}
}

// brought reports whether this run installed a driver that tasks were waiting
// for: what it serves is seen by another look only.
func (w Desired) brought(changed bool) bool {
	return changed && w.Driver != nil && !w.Driver.Computes && w.Driver.Decision.Driver
}

// reboot asks Juju for one after this hook, once for each reason, where the
// operator allows it; else the status says what waits for it.
func (c *Charm) reboot(ctx context.Context, want Desired) ([]Cause, error) {
	if want.Driver == nil {
		return nil, nil
	}
	reason := want.Driver.Decision.Reboot
	if reason == "" {
		return nil, jujuerrors.Annotate(rocm.ForgetReboots(c.Host.Root), "cannot forget the reboots")
	}
	kind := Blocked
	if want.Driver.Computes {
		kind = Active
	}
	pending := []Cause{{kind, rocm.RebootPending(c.Host.Root, reason, want.Driver.Facts, want.Driver.Wanted)}}
	if !want.Driver.Wanted.AllowReboot {
		return pending, nil
	}
	due, err := rocm.RebootDue(c.Host.Root, reason, want.Driver.Facts.BootID)
	if err != nil {
		return append(pending, Cause{kind, err.Error()}), nil
	}
	if !due {
		return pending, nil
	}
	if err := c.Tools.Reboot(ctx, false); err != nil {
		return nil, jujuerrors.Annotate(err, "cannot ask for a reboot")
	}
	return []Cause{{Maintenance, fmt.Sprintf("rebooting to %s", reason)}}, nil
}
