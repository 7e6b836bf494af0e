package recorder

import (
	"context"
	"errors"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/garden"
)

// exitTimeout bounds a request. A look waits for it.
const exitTimeout = 500 * time.Millisecond

// fetchExit returns the exit status of a container's process.
func (r *Recorder) fetchExit(ctx context.Context, handle string) (*int, error) {
	if r.Worker == "" && !r.Root.Real() {
		return nil, errors.New("the worker is this machine's")
	}
	ctx, cancel := context.WithTimeout(ctx, exitTimeout)
	defer cancel()
	status, err := garden.ExitStatus(ctx, r.Worker, handle)
	if err != nil {
		return nil, err
	}
	return &status, nil
}
