package concourse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
)

// Signals of a worker: after its tasks it ends, and the web keeps or removes its volumes.
const (
	land   = "SIGUSR1"
	remove = "SIGUSR2"
)

// signalCommand returns the command that sends a signal to the worker.
func signalCommand(signal string) host.Command {
	return resource.Systemctl("kill", "--kill-whom=main", "--signal="+signal, Unit)
}

// Land waits up to limit for the tasks of a worker that takes no new ones, and stops it. It
// also stops a worker without a web, because its builds are lost. lands reports that the
// worker has the signal, so it lands also after an error.
func Land(ctx context.Context, h host.Host, limit time.Duration) (lands bool, err error) {
	err = leave(ctx, h, land, limit)
	_, unsent := errors.AsType[*signalError](err)
	switch {
	case unsent:
		return false, err
	case errors.Is(err, errLimit) && !connected(ctx, h):
		return true, errors.New("the worker has no connection to a web; each hook repeats the signal")
	case errors.Is(err, errLimit):
		return true, fmt.Errorf("%w; it takes no new ones, and stops when they end", err)
	case err != nil && !errors.Is(err, errAway):
		return true, err
	}
	// Without its web it ends with an error, and systemd would start it again.
	_, err = h.Run(ctx, resource.Systemctl("stop", Unit))
	return true, err
}

// Landing keeps a worker that has the signal to land from taking tasks. A web that restarts
// registers it as running, and a worker that lost its web starts again.
type Landing struct{ State resource.UnitState }

// Diff implements plan.Resource.
func (l Landing) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	again := signalCommand(land)
	switch {
	case l.State.Active == "activating":
		again = resource.Systemctl("stop", Unit)
	case !l.State.Running():
		return nil, nil
	}
	return plan.Plan{{Op: "land " + Unit, Why: "the operator landed it", Tolerate: true,
		Do: func(ctx context.Context) error {
			_, err := h.Run(ctx, again)
			return err
		}}}, nil
}
