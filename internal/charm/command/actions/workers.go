package actions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// landWorker makes the worker finish its tasks and stop. It stays stopped until
// restart-services. The web keeps its volumes.
func (c *Actions) landWorker(ctx context.Context, u charm.Decision, _ map[string]any) (map[string]any, error) {
	if err := checkUsable(u, "land the worker", model.WorkerRole); err != nil {
		return nil, err
	}
	if !u.Want.Worker.Up {
		return nil, errors.New("cannot land the worker: it is not to be running; see " +
			c.Commands().ShowStatus())
	}
	if err := c.Host.WriteFile(role.LandedFile, nil, 0o600); err != nil {
		return nil, err
	}
	// Disabled, because it would start again with the machine.
	_, err := c.Host.Run(ctx, resource.Systemctl("disable", concourse.Unit))
	lands := false
	if err == nil {
		lands, err = concourse.Land(ctx, c.Host, u.Config.Worker.DrainTimeout)
	}
	switch {
	case err != nil && lands:
		return map[string]any{"landed": false}, fmt.Errorf("cannot finish landing the worker: %w", err)
	case err != nil:
		return nil, errors.Join(err, c.Host.Remove(role.LandedFile)) // the next hook enables the unit
	}
	return map[string]any{"landed": true, "message": "the worker takes no work until restart-services"}, nil
}

// pruneWorker removes a worker that no longer exists from the web's list.
func (c *Actions) pruneWorker(ctx context.Context, u charm.Decision, params map[string]any) (map[string]any, error) {
	if err := checkUsable(u, "prune a worker", model.WebRole); err != nil {
		return nil, err
	}
	name, _ := params["worker"].(string)
	if name == "" {
		return nil, fmt.Errorf("cannot prune a worker without its name: give worker=<name> as fly workers shows it")
	}
	if !u.Want.Web.Up {
		return nil, errors.New("cannot prune a worker: the web is not running; see " +
			c.Commands().ShowStatus())
	}
	api := c.webAPI(u)
	workers, err := api.Workers(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	var listed concourse.WorkerInfo
	for _, w := range workers {
		names = append(names, w.Name+" ("+w.State+")")
		if w.Name == name {
			listed = w
		}
	}
	left, related := u.Facts.Web.HasLeft(name), u.Facts.Web.Related(name)
	// A worker stays as retiring if its tasks did not end before its unit was removed.
	leaves := listed.State == "landing" || listed.State == "retiring"
	switch {
	case listed.Name == "" && !left:
		return nil, fmt.Errorf("cannot prune worker %q: the web has %s", name, workerList(names))
	case listed.State == "running" && (!left || related), leaves && related:
		return nil, fmt.Errorf("cannot prune worker %s: it is %s; stop it first: %s", name, listed.State,
			c.Commands().Of("<its unit>").RunAction("land-worker"))
	}
	if left {
		if err = c.disconnect(ctx, u, name); err == nil {
			err = api.Remove(ctx, name) // the list has changed
		}
	} else {
		err = api.RemoveListed(ctx, listed)
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"pruned": name}, nil
}

// disconnect removes the key of a removed worker that still drains, and its connections:
// prune-worker does not wait for its tasks. The next hook removes its record.
func (c *Actions) disconnect(ctx context.Context, u charm.Decision, name string) error {
	web := *u.Facts.Web
	web.Departed = slices.Clone(web.Departed)
	for i := range web.Departed {
		if web.Departed[i].Name == name {
			web.Departed[i].Until = time.Time{}
		}
	}
	u.Facts.Web = &web
	u, err := c.Redesire(ctx, u)
	if err != nil {
		return err
	}
	return c.apply(ctx, u)
}

func workerList(names []string) string {
	if len(names) == 0 {
		return "no workers"
	}
	return strings.Join(names, ", ")
}

// acceptGPUs makes the current GPUs the expected GPUs, from the next hook on.
func (c *Actions) acceptGPUs(_ context.Context, u charm.Decision, _ map[string]any) (map[string]any, error) {
	if err := checkUsable(u, "accept the GPUs", model.WorkerRole); err != nil {
		return nil, err
	}
	if err := c.Host.Remove(worker.GPUsFile); err != nil {
		return nil, err
	}
	return map[string]any{"gpus": fmt.Sprintf("%d, from the next hook on", u.Want.Worker.GPUs.Count)}, nil
}
