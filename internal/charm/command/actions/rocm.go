package actions

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
)

// ShowDriver prints the observed state of AMD's driver and the decision on it, for any
// compute-runtime. Before the first hook the options have their defaults. It changes
// nothing.
func (c *Actions) ShowDriver(ctx context.Context, w io.Writer) error {
	facts, err := model.LoadFor(c.Host.Root, "look at the driver")
	if err != nil {
		return err
	}
	facts.Program = c.Program
	cfg, problems := facts.Options()
	for _, p := range problems {
		if _, err := fmt.Fprintf(w, "wrong option: %s\n", p); err != nil {
			return err
		}
	}
	f, err := amd.ObserveDriver(ctx, c.Host, worker.AMDMachine(machine.Observe(c.Host.Root), runtime.GOARCH))
	if err != nil {
		return err
	}
	if err := f.Print(w); err != nil {
		return err
	}
	for _, p := range amd.Leftovers(f) {
		if _, err := fmt.Fprintf(w, "in the way: %s\n  %s\n", p.What, p.Fix); err != nil {
			return err
		}
	}
	return amd.Decide(f, worker.DriverOptions(cfg.Driver, facts.Commands())).Print(w)
}

// resetROCm removes all of AMD's software from the unit if apply is set. Otherwise it
// returns the plan of the removal.
func (c *Actions) resetROCm(ctx context.Context, _ charm.Decision, params map[string]any) (map[string]any, error) {
	f, err := amd.ObserveDriver(ctx, c.Host, worker.AMDMachine(machine.Observe(c.Host.Root), runtime.GOARCH))
	if err != nil {
		return nil, err
	}
	p, err := plan.Diff(ctx, c.Host, amd.ResetPlan(f)...)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	if err := p.Print(&b); err != nil {
		return nil, err
	}
	results := map[string]any{"plan": strings.TrimSpace(b.String()), "steps": len(p)}
	if apply, _ := params["apply"].(bool); !apply {
		results["message"] = "nothing was changed; with apply=true it is done"
		return results, nil
	}
	_, err = p.Apply(ctx, c.logProgress(ctx))
	if err == nil {
		results["message"] = "done; the next hook installs what the options require"
	}
	return results, err
}
