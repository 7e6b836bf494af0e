package charm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// RefreshCDI describes the GPUs again, with Juju's data from the last hook, and prints the
// GPUs that tasks get. It changes only existing descriptions and existing settings of the
// wrapper, and restarts nothing. The next hook updates tags and status.
func (c *Charm) RefreshCDI(ctx context.Context, w io.Writer) error {
	unlock, err := c.Host.Lock(LockFile)
	if err != nil {
		return fmt.Errorf("cannot lock %s: %w", LockFile, err)
	}
	defer unlock()
	finished, err := c.finishToolkit(ctx)
	if err != nil {
		return err
	}
	facts, err := model.LoadFor(c.Host.Root, "describe the GPUs")
	if err != nil {
		return err
	}
	facts.Program = c.Program
	cfg, problems := facts.Options()
	switch {
	case facts.Unit == "":
		return errors.New("cannot describe the GPUs: no hook has run on this machine yet")
	case len(problems) > 0:
		return fmt.Errorf("cannot describe the GPUs until this option is right: %s", problems[0])
	case !facts.Role.Worker() || cfg.GPU.ComputeRuntime == config.RuntimeNone || !c.Host.Exists(oci.DefaultConfig):
		_, err := io.WriteString(w, "nothing to do: tasks of this unit get no GPUs\n")
		return err
	}
	o := worker.Observed{Observed: role.Observed{Facts: facts, Config: cfg, Arch: runtime.GOARCH,
		Machine: machine.Observe(c.Host.Root).Under(facts.Juju), Now: c.Host.Now()}}
	if o.GPUs, err = gpu.Discover(c.Host.Root); err != nil {
		return err
	}
	o.ObserveLinks(c.Host.Root)
	o.ObserveLabels(c.Host.Root)
	if err := o.ObserveKnown(c.Host.Root); err != nil {
		return err
	}
	p, err := o.RefreshSpecs(ctx, c.Host)
	if err != nil {
		return err
	}
	rest, err := plan.Diff(ctx, c.Host, worker.RefreshResources(o)...)
	if err != nil {
		return err
	}
	if _, err := rest.Apply(ctx, nil); err != nil {
		return err
	}
	return slices.Concat(finished, p, rest).Print(w)
}
