package concourse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
)

// Signals of a worker: after its tasks it ends, and the web keeps or removes its volumes.
const (
	land   = "SIGUSR1"
	remove = "SIGUSR2"
)

func tell(signal string) host.Command {
	return resource.Systemctl("kill", "--kill-whom=main", "--signal="+signal, Unit)
}

// Land waits up to limit for the tasks of a worker that takes no new ones, and stops it. It
// also stops a worker without a web, because its builds are lost. An error of a worker that
// still runs is a *LandError.
func Land(ctx context.Context, h host.Host, limit time.Duration) error {
	err := leave(ctx, h, land, limit)
	if err != nil && !errors.Is(err, errAway) {
		if errors.Is(err, errLimit) {
			err = &LandError{Limit: limit, Connected: connected(ctx, h)}
		}
		return err
	}
	// Without its web it ends with an error, and systemd would start it again.
	_, err = h.Run(ctx, resource.Systemctl("stop", Unit))
	return err
}

// LandError reports a worker that still runs after Limit.
type LandError struct {
	Limit     time.Duration
	Connected bool // to a web, which gives it no new tasks
}

func (e *LandError) Error() string {
	if !e.Connected {
		return fmt.Sprintf("the worker has no connection to a web for %s; each hook repeats the signal", e.Limit)
	}
	return fmt.Sprintf("its tasks did not finish within %s; it takes no new ones, and stops when they end", e.Limit)
}

// Landing keeps a worker that was told to land from taking tasks. A web that restarts
// registers it as running, and a worker that lost its web starts again.
type Landing struct{ State resource.UnitState }

// Diff implements plan.Resource.
func (l Landing) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	again := tell(land)
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
