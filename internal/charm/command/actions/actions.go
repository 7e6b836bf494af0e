// Package actions implements Juju's actions and the commands of dispatch. Both show or
// change one unit. An action that changes the unit uses the pipeline of package charm; all
// others read the current machine.
package actions

import (
	"context"
	"fmt"
	"io"
	"maps"

	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/preflight"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/watcher"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/pipelines"
)

// Actions holds one run of the charm for an action or a command.
type Actions struct {
	*charm.Charm

	// Probe opens a device node and returns its DRM driver. If nil, this process opens the
	// node, and a node that hangs blocks it.
	Probe func(ctx context.Context, node string) (driver string, err error)
	// Start starts this program with arguments in the background. nil disables it.
	Start func(args ...string) error
	// ReadReport reads the GPUs and their users once, if their owner has not. If nil, this
	// process reads the GPUs.
	ReadReport func(ctx context.Context) (api.Report, error)
	// FlakesURL is the JSON of flakes, "" for this machine's exporter.
	FlakesURL string
}

// GPUs returns the unit's GPUs with their leases and quarantine.
func (c *Actions) GPUs() *watcher.Unit {
	return &watcher.Unit{Host: c.Host, WorkerURL: c.WorkerURL, Start: c.Start,
		Commands: c.Commands().Of("")}
}

// table returns the function of every action. See lockedAction and textAction.
func (c *Actions) table() map[string]action {
	all := map[string]action{
		"accept-gpus":        c.lockedAction(c.acceptGPUs),
		"check-status":       c.lockedAction(c.checkStatus),
		"coverage":           c.lockedAction(c.coverage),
		"flakes":             c.lockedAction(c.flakes),
		"fleet":              c.lockedAction(c.fleet),
		"get-admin-password": c.lockedAction(c.adminPassword),
		"land-worker":        c.lockedAction(c.landWorker),
		"plan":               c.lockedAction(c.planAction),
		"prune-worker":       c.lockedAction(c.pruneWorker),
		"reset-rocm":         c.lockedAction(c.resetROCm),
		"restart-services":   c.lockedAction(c.restartServices),
		"rotate-keys":        c.lockedAction(c.rotateKeys),
		"run-migrations":     c.lockedAction(c.runMigrations),

		"explain-error": c.textAction("explanation",
			func(_ context.Context, w io.Writer, p params, f term.Format) error {
				if code, ok := p["code"]; ok {
					return c.ExplainError(w, f, fmt.Sprint(code))
				}
				return c.ListErrors(w, f)
			}),
		"gpu-evidence": c.textAction("evidence", withoutContext(c.GPUs().Evidence)),
		"gpu-health":   c.textAction("health", withoutParams(c.GPUHealth)),
		"gpu-status":   c.textAction("leases", withoutContext(c.GPUs().Status)),
		"list-gpus":    c.gpusAction,
		"preflight": c.textAction("checks", func(ctx context.Context, w io.Writer, p params, f term.Format) error {
			return preflight.Show(ctx, c.Host, c.Program, w, p.text("hosts"), f)
		}),
		"why": c.textAction("why", func(ctx context.Context, w io.Writer, p params, f term.Format) error {
			return c.Why(ctx, w, p.text("task"), f)
		}),
		"get-pipelines": c.textAction("pipelines", func(_ context.Context, w io.Writer, p params, _ term.Format) error {
			return pipelines.Write(w, p.text("name"))
		}),
		"release-gpu": c.gpuAction("released", "release", "gpu-status", func(w io.Writer, which string, p params) error {
			force, _ := p["force"].(bool)
			return c.GPUs().Release(w, which, force)
		}),
		"return-gpu": c.gpuAction("returned", "return", "gpu-status", func(w io.Writer, which string, _ params) error {
			return c.GPUs().Return(w, which)
		}),
		"rocm-matrix": c.textAction("releases", func(_ context.Context, w io.Writer, _ params, _ term.Format) error {
			return amd.WriteMatrix(w)
		}),
		"verify-gpu": c.textAction("verified", withoutParams(c.VerifyGPUs)),
		"quarantine-gpu": c.gpuAction("quarantined", "quarantine", "list-gpus",
			func(w io.Writer, which string, p params) error {
				return c.GPUs().Quarantine(w, which, p.text("reason"))
			}),
	}
	return all
}

// gpusAction lists the GPUs, and detects their vendors.
func (c *Actions) gpusAction(ctx context.Context, given map[string]any) (map[string]any, error) {
	results, err := c.textAction("gpus", withoutParams(c.ListGPUs))(ctx, given)
	if err != nil {
		return results, err
	}
	detected, err := c.textAction("detected", func(_ context.Context, w io.Writer, _ params, _ term.Format) error {
		_, err := c.DetectGPUs(w)
		return err
	})(ctx, given)
	maps.Copy(results, detected)
	return results, err
}

// gpuAction returns an action on the GPU that its parameter names, as the action list shows it.
func (c *Actions) gpuAction(result, verb, list string, act func(w io.Writer, which string, p params) error) action {
	return c.textAction(result, func(_ context.Context, w io.Writer, p params, _ term.Format) error {
		which, err := p.gpu(verb, list)
		if err != nil {
			return err
		}
		return act(w, which, p)
	})
}
