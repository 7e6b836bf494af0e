package charm

import (
	"context"

	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/charm/web"
	"concourse-ci-machine/internal/charm/worker"
)

// desireEnding returns what ends although options are wrong: what the operator ended, and
// the access of workers that left. Wrong options have their defaults here.
func (c *Charm) desireEnding(ctx context.Context, facts model.Facts, cfg config.Config, units func() (map[string]resource.UnitState, error)) (want Desired, err error) {
	o := role.Observed{Event: c.Event.Name, Facts: facts, Config: cfg, Now: c.Host.Now()}
	if o.Units, err = units(); err != nil {
		return want, err
	}
	want.EndsTasks = role.EndsTasks(o.Event, facts)
	if facts.Role == model.WebRole {
		d, err := web.Ending(ctx, c.Host, o)
		want.Desired.Resources, want.Web = d.Resources, d.Web
		return want, err
	}
	want.Resources, err = worker.EndTasks(c.Host, o)
	return want, err
}

// endOnly applies what ends, and sets a status that names the wrong options.
func (c *Charm) endOnly(ctx context.Context, facts model.Facts, want Desired, problems []config.Problem) error {
	want.Causes = causesOf(problems)
	due, deferred, err := c.Plan(ctx, want)
	if err != nil {
		return err
	}
	if err := c.logPlan(ctx, due, deferred); err != nil {
		return err
	}
	notes, err := due.Apply(ctx, c.say(ctx))
	if err != nil {
		return c.failed(ctx, want, err)
	}
	if err := c.logNotes(ctx, notes); err != nil {
		return err
	}
	if err := c.forgetGone(facts, want, notes); err != nil {
		return err
	}
	return c.setStatus(ctx, status.Of("", want.Causes))
}
