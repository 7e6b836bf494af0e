package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/garden"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// exitTimeout bounds a request. A look waits for it.
const exitTimeout = 500 * time.Millisecond

// readExit reads the exit status of a task, run or container.
func (r *Recorder) readExit(ctx context.Context, c *container) (err error) {
	switch c.kind {
	case lease.Run:
		if e, ok := r.holders.ends[c.handle]; ok {
			c.exit, c.answered = e.Exit, true
			if e.Clocks != "" {
				c.clocks = &taskrecord.Clocks{Level: e.Clocks, Invalid: e.ClocksInvalid}
			}
		}
		return nil
	case lease.Container:
		c.exit, err = r.engineExit(c)
	default:
		c.exit, err = r.fetchExit(ctx, c.handle)
	}
	c.answered = c.exit != nil || errors.Is(err, errNoStatus)
	return err
}

// fetchExit returns the exit status of a task's process.
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

// errNoStatus reports that no file has the exit status, and none will.
var errNoStatus = errors.New("the engine has no file with the exit status")

// dockerState names the folder in which Docker keeps the end of a container until it is removed:
// with --rm that is at once.
const dockerState = "/var/lib/docker/containers"

// engineExit returns the exit status of a container of Docker or Podman.
func (r *Recorder) engineExit(c *container) (*int, error) {
	var status int
	switch c.engine {
	case "docker":
		data, err := r.Root.ReadFile(path.Join(dockerState, c.handle, "config.v2.json"))
		if err != nil {
			return nil, errNoStatus
		}
		if status, err = dockerExit(data); err != nil {
			return nil, err
		}
	case "podman":
		text, err := r.exits.status(c.handle)
		if err != nil {
			return nil, errNoStatus
		}
		if status, err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
			return nil, fmt.Errorf("cannot read the exit status of container %s: %w", c.handle, err)
		}
	default:
		return nil, errNoStatus
	}
	return &status, nil
}

// dockerExit returns the exit status in Docker's file of a container, which it writes soon after the end.
func dockerExit(data []byte) (int, error) {
	var file struct {
		State struct {
			Running  bool
			ExitCode int
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return 0, fmt.Errorf("cannot read the exit status of a container: %w", err)
	}
	if file.State.Running {
		return 0, errors.New("Docker has not written the exit status yet")
	}
	return file.State.ExitCode, nil
}
