package charm

import (
	"context"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
)

// desireEnding returns the changes of a unit with invalid options: whatever the operator
// ended must end, and workers that left lose their access. In cfg invalid options have
// their defaults.
func (c *Charm) desireEnding(ctx context.Context, facts model.Facts, cfg config.Config,
	units func() (map[string]resource.UnitState, error)) (want Desired, err error) {
	o := role.Observed{Event: c.Event.Name, Facts: facts, Config: cfg, Now: c.Host.Now()}
	if o.Units, err = units(); err != nil {
		return want, err
	}
	want.EndsTasks = role.EndsTasks(o.Event, facts)
	if facts.Role.Web() {
		d, err := web.Ending(ctx, c.Host, o)
		if err != nil {
			return want, err
		}
		want.Desired.Resources, want.Web = d.Resources, d.Web
	}
	if !facts.Role.Web() || facts.Role.Worker() {
		ending, err := worker.EndTasks(c.Host, o)
		want.Resources = append(want.Resources, ending...)
		return want, err
	}
	return want, nil
}

// endOnly applies a decision of a unit with invalid options. The status names the options.
func (c *Charm) endOnly(ctx context.Context, d Decision) error {
	want := d.Want
	want.Causes = nil
	for _, p := range d.Problems {
		want.Causes = append(want.Causes, status.Block("%s", p))
	}
	due, deferred, err := c.Plan(ctx, want)
	if err != nil {
		return err
	}
	if err := c.logPlan(ctx, due, deferred); err != nil {
		return err
	}
	notes, err := due.Apply(ctx, c.showProgress(ctx))
	if err != nil {
		return c.failed(ctx, want, err)
	}
	if err := c.logNotes(ctx, notes); err != nil {
		return err
	}
	if err := c.forgetDeparted(d.Facts, want, notes); err != nil {
		return err
	}
	return c.show(ctx, nil, want.Causes)
}
