package charm

import (
	"context"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
)

// reboot requests a reboot after this hook, once for each reason, if the operator allows it.
// Otherwise the status names the change that needs a reboot.
func (c *Charm) reboot(ctx context.Context, want worker.Worker) ([]status.Cause, error) {
	if want.Driver == nil {
		return nil, nil
	}
	reason := want.Driver.Decision.Reboot
	if reason == "" {
		return nil, jujuerrors.Annotate(amd.ClearReboots(c.Host.Root), "cannot forget the reboots")
	}
	kind := status.Blocked
	if want.Driver.HasGPUs {
		kind = status.Active
	}
	pending := []status.Cause{amd.RebootPending(c.Host.Root, reason, want.Driver.Facts, want.Driver.Wanted).As(kind)}
	if !want.Driver.Wanted.AllowReboot {
		return pending, nil
	}
	due, err := amd.RebootDue(c.Host.Root, reason, want.Driver.Facts.BootID)
	if err != nil {
		return append(pending, status.Block("%v", err).As(kind)), nil
	}
	if !due {
		return pending, nil
	}
	if err := c.Tools.Reboot(ctx); err != nil {
		return nil, jujuerrors.Annotate(err, "cannot request a reboot")
	}
	return []status.Cause{status.Block("rebooting to %s", reason).As(status.Maintenance)}, nil
}
