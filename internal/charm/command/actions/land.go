package actions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
)

// landWorker makes the worker finish what it does and stop. It stays stopped
// until restart-services; the web keeps its volumes.
func (c *Actions) landWorker(ctx context.Context, u unitNow, _ map[string]any) (map[string]any, error) {
	if err := u.usable("land the worker", model.WorkerRole); err != nil {
		return nil, err
	}
	if !u.Want.Worker.Up {
		return nil, fmt.Errorf("cannot land the worker: it is not to be running; juju status says why")
	}
	if err := c.Host.WriteFile(role.LandedFile, nil, 0o600); err != nil {
		return nil, err
	}
	// Disabled, as it would come back with the machine.
	for _, command := range []host.Command{resource.Systemctl("disable", concourse.Unit),
		resource.Systemctl("kill", "--kill-whom=main", "--signal=SIGUSR1", concourse.Unit)} {
		if _, err := c.Host.Run(ctx, command); err != nil {
			return nil, errors.Join(err, c.Host.Remove(role.LandedFile)) // the next hook enables it again
		}
	}
	for waited := time.Duration(0); waited < u.Config.WorkerDrainTimeout; waited += landPoll {
		states, err := resource.ShowUnits(ctx, c.Host, concourse.Unit)
		if err != nil {
			return nil, err
		}
		if s := states[concourse.Unit]; !s.Running() {
			return map[string]any{"landed": true, "message": "the worker takes no work until restart-services"}, nil
		}
		c.Host.Sleep(landPoll)
	}
	return map[string]any{"landed": false}, fmt.Errorf("cannot wait longer than worker-drain-timeout (%s) for the running tasks: the worker lands when they end, and takes no new ones", u.Config.WorkerDrainTimeout)
}

const landPoll = 2 * time.Second
