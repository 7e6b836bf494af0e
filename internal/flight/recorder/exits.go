package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/garden"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
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

// dockerState names the folder in which Docker keeps its containers, and dockerFile the file of each.
const (
	dockerState = "/var/lib/docker/containers"
	dockerFile  = "config.v2.json"
)

// exitFile returns the file in which an engine of root writes the exit status of a container, ""
// if it writes none.
func (c *container) exitFile() string {
	switch c.engine {
	case "docker":
		return path.Join(dockerState, c.handle, dockerFile)
	case "podman":
		return path.Join("/run/libpod/exits", c.handle) // conmon writes the number alone
	}
	return ""
}

// engineExit returns the exit status of a container of Docker or Podman.
func (r *Recorder) engineExit(c *container) (*int, error) {
	if c.exitFile() == "" {
		return nil, errNoStatus
	}
	status, err := r.exits.last(c.exitFile())
	if err != nil {
		return nil, fmt.Errorf("cannot read the exit status of container %s: %w", c.handle, err)
	}
	return status, nil
}

// readExitFile reads the exit status in a file of an engine.
func readExitFile(r host.Root, file string) (int, error) {
	text, err := r.ReadText(file)
	switch {
	case err != nil:
		return 0, errNoStatus
	case path.Base(file) == dockerFile:
		return dockerExit([]byte(text))
	}
	return strconv.Atoi(text)
}

// dockerExit returns the exit status in Docker's file of a container, which it writes soon after the
// end. A container that it will start again counts as running there.
func dockerExit(data []byte) (int, error) {
	var file struct {
		State struct {
			Running, Restarting bool
			ExitCode            int
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return 0, err
	}
	if file.State.Running && !file.State.Restarting {
		return 0, errors.New("Docker has not written the exit status yet")
	}
	return file.State.ExitCode, nil
}
