package actions

import (
	"context"
	"fmt"

	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/worker"
)

// acceptGPUs has the next hook take the GPUs that there are for all that there
// should be.
func (c *Actions) acceptGPUs(_ context.Context, u unitState, _ map[string]any) (map[string]any, error) {
	if err := u.checkUsable("accept the GPUs", model.WorkerRole); err != nil {
		return nil, err
	}
	if err := c.Host.Remove(worker.GPUsFile); err != nil {
		return nil, err
	}
	return map[string]any{"gpus": fmt.Sprintf("%d, from the next hook on", u.Want.Worker.GPUs.Count)}, nil
}
