// Package charm reconciles the machine with the Juju model. Every hook runs the same
// pipeline: observe, validate, desire, plan, guard, apply, publish, status. So no hook
// depends on a previous one, and the next hook finishes the work of a hook that was killed.
// Desire is pure. The package never decides what a web or a worker needs: packages web and
// worker do.
package charm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// Charm runs the charm once, for a hook, an action or a command.
type Charm struct {
	Program  wellknown.Program // that the user runs
	Host     host.Host
	Tools    juju.Model // nil in a command of a person
	Event    juju.Event
	CharmDir string        // folder of the unpacked charm, as this process opens it
	NewID    func() string // makes a random id of 8 hex digits
	// NewSecrets makes a web's keys and password. nil makes real ones.
	NewSecrets func() (concourse.WebSecrets, error)
	Stderr     io.Writer // ends in the unit's log

	WorkerURL   string // list of the worker's containers; "" for the worker's port, on the machine's own root only
	ExporterURL string // list of the exporter's GPUs; "" for port 9401, on the machine's own root only
}

// Commands returns the commands that texts name to users of the unit.
func (c *Charm) Commands() wellknown.Commands {
	return wellknown.Commands{Program: c.Program, Unit: c.Event.Unit}
}

// LockFile separates two runs. Juju runs one hook at a time, but people may start a command.
const LockFile = wellknown.LockDir + "/hook"

// Hook runs the pipeline for a hook. It returns nil if the machine converged, or if the
// status shows why it did not. It returns an error if another run of the hook can help: Juju
// repeats the hook.
func (c *Charm) Hook(ctx context.Context) error {
	unlock, err := c.Host.Lock(LockFile)
	if err != nil {
		return jujuerrors.Annotatef(err, "cannot lock %s", LockFile)
	}
	defer unlock()
	p, err := c.finishToolkit(ctx)
	if err != nil {
		return err
	}
	if err := c.logPlan(ctx, p, nil); err != nil {
		return err
	}
	reason, err := c.converge(ctx, firstRun)
	if reason != "" {
		_, err = c.converge(ctx, lastRun)
	}
	return c.showFull(ctx, err)
}

// finishToolkit finishes a step that was killed while files of other packages were moved
// away. It comes before any observation, because the machine must be observed with them.
func (c *Charm) finishToolkit(ctx context.Context) (plan.Plan, error) {
	p, err := amd.ToolkitKept().Diff(ctx, c.Host)
	if err != nil {
		return nil, err
	}
	_, err = p.Apply(ctx, c.showProgress(ctx))
	return p, err
}

// converge runs the pipeline once. It returns the reason if the hook must run it again.
func (c *Charm) converge(ctx context.Context, r run) (rerunReason, error) {
	d, err := c.Decide(ctx)
	if err != nil {
		return "", err
	}
	want := d.Want
	if len(d.Problems) > 0 {
		return "", c.endOnly(ctx, d)
	}
	if len(want.Refused) > 0 {
		return "", c.show(ctx, nil, want.Refused)
	}
	upgrades := false
	if !want.Remove {
		_, _, upgrades = release.Upgrades(c.Host.Root, want.Release)
	}
	due, deferred, err := c.Plan(ctx, want)
	if err != nil {
		return "", err
	}
	if err := c.logPlan(ctx, due, deferred); err != nil {
		return "", err
	}
	notes, err := due.Apply(ctx, c.showProgress(ctx))
	if err != nil {
		return "", c.failed(ctx, want, err)
	}
	if err := c.logNotes(ctx, notes); err != nil {
		return "", err
	}
	if want.Remove {
		if err := c.record(runRecord{}); err != nil {
			return "", err
		}
		return "", c.setStatus(ctx, status.Status{Kind: status.Maintenance, Message: "Stopped"})
	}
	services := Unchanged
	if len(due) > 0 {
		services = Restarted
	}
	if r == firstRun {
		if reason, err := c.rerun(ctx, want, upgrades, services); reason != "" || err != nil {
			return reason, err
		}
	}
	return "", c.report(ctx, outcome{d, deferred, notes, services})
}

// outcome holds the results of an applied plan.
type outcome struct {
	Decision
	deferred plan.Plan
	notes    []plan.Note // of tolerated failures
	services Services    // Restarted if at least one step was due
}

// report publishes relations and secrets after the plan was applied, and sets the status.
func (c *Charm) report(ctx context.Context, o outcome) error {
	want := o.Want
	if err := c.Publish(ctx, o.Decision); err != nil {
		return err
	}
	if err := c.forgetDeparted(o.Facts, want, o.notes); err != nil {
		return err
	}
	if err := want.Worker.Known.Write(c.Host.Root); err != nil {
		return jujuerrors.Annotate(err, "cannot record the unit's GPUs")
	}
	reboot, err := c.reboot(ctx, want.Worker)
	if err != nil {
		return err
	}
	found := slices.Concat(deferredCauses(o.deferred), c.noteCauses(want.Worker, o.notes), reboot)
	if err := c.record(runRecord{Causes: found}); err != nil {
		return err
	}
	return c.show(ctx, c.Ready(want), slices.Concat(want.Causes, found, c.Check(ctx, want, o.services)))
}

// Decision holds the result of the pipeline up to desire.
type Decision struct {
	Facts    model.Facts
	Config   config.Config // an invalid option has its default
	Want     Desired
	Problems []config.Problem // invalid options; then Want has only what must end anyway
}

// Decide runs the pipeline up to desire.
func (c *Charm) Decide(ctx context.Context) (Decision, error) {
	last, err := model.Load(c.Host.Root)
	if err != nil && (c.Tools == nil || !errors.Is(err, model.ErrDamaged)) {
		return Decision{Facts: last}, err
	}
	facts := last
	units := c.showUnits(ctx) // in parallel with Juju's tools
	if c.Tools != nil {
		_, _, installed := release.Installed(c.Host.Root)
		if facts, err = model.Observe(ctx, c.Tools, c.Event, last, installed, c.Host.Now()); err != nil {
			return Decision{Facts: facts}, err
		}
	}
	facts.Program = c.Program
	cfg, problems := facts.Options()
	var refused []error
	if len(problems) == 0 {
		if refused, err = c.completeSecret(&facts, cfg); err != nil {
			return Decision{Facts: facts}, err
		}
	}
	cfg = cfg.WithDefaults(problems)
	// The hook remove deletes the file, so it is not written again.
	if c.Tools != nil && c.Event.Action == nil && c.Event.Name != "remove" {
		if err := model.Save(c.Host.Root, last, facts); err != nil {
			return Decision{Facts: facts}, jujuerrors.Annotate(err, "cannot store Juju's facts")
		}
	}
	if len(problems) > 0 && !model.Leaving(c.Event.Name) {
		want, err := c.desireEnding(ctx, facts, cfg, units)
		return Decision{facts, cfg, want, problems}, err
	}
	seen, err := c.observe(ctx, facts, cfg, units)
	if err != nil {
		return Decision{Facts: facts}, err
	}
	seen.Refused = append(seen.Refused, refused...)
	want, err := c.decideRole(ctx, seen)
	return Decision{Facts: facts, Config: cfg, Want: want}, err
}

// Plan returns the missing steps, and separately the steps that the guard defers.
func (c *Charm) Plan(ctx context.Context, want Desired) (due, deferred plan.Plan, err error) {
	all, err := plan.Diff(ctx, c.Host, want.Resources...)
	if err != nil {
		return nil, nil, jujuerrors.Trace(err)
	}
	due, deferred = guard(all, want.EndsTasks)
	return due, deferred, nil
}

func (c *Charm) logPlan(ctx context.Context, due, deferred plan.Plan) error {
	if len(due) == 0 { // deferred steps are in the status of each hook
		return nil
	}
	var b strings.Builder
	b.WriteString("plan:\n")
	if err := PrintPlan(&b, due, deferred); err != nil {
		return err
	}
	return c.Tools.Log(ctx, juju.Info, strings.TrimSpace(b.String()))
}

// logNotes logs each tolerated failure in one line. The status has only a short form, or
// nothing.
func (c *Charm) logNotes(ctx context.Context, notes []plan.Note) error {
	for _, n := range notes {
		text := fmt.Sprintf("could not %s: %s", n.Step.Op, lastLine(n.Err))
		if errors.Is(n.Err, resource.ErrSkipped) {
			text = "did not " + n.Step.Op + ": " + resource.ErrSkipped.Error()
		}
		if err := c.Tools.Log(ctx, juju.Warning, text); err != nil {
			return err
		}
	}
	return nil
}

// showProgress returns a function that sets a maintenance status for each step. If the
// status cannot be set, the work goes on.
func (c *Charm) showProgress(ctx context.Context) func(text string) {
	return func(text string) {
		if c.Tools == nil {
			return
		}
		if err := c.Tools.StatusSet(ctx, juju.Status(status.Maintenance), text); err != nil {
			fmt.Fprintln(c.Stderr, err)
		}
	}
}

func (c *Charm) setStatus(ctx context.Context, s status.Status) error {
	return jujuerrors.Annotate(c.Tools.StatusSet(ctx, juju.Status(s.Kind), s.Message), "cannot set the status in Juju")
}

// show sets the status that the causes make.
func (c *Charm) show(ctx context.Context, ready []string, causes []status.Cause) error {
	return c.setStatus(ctx, status.Of(c.Commands().RunAction("check-status"), ready, causes))
}

// Causes returns the causes of a decision and of the last run. Check returns the causes of
// running services.
func (c *Charm) Causes(want Desired) []status.Cause {
	last, _ := recordState.Read(c.Host.Root) // an unreadable file only hides its causes
	if last.Op != "" {
		return slices.Concat(last.Causes, want.Refused, want.Causes)
	}
	return slices.Concat(want.Refused, want.Causes, last.Causes)
}

// Redesire runs the pipeline up to desire again, with facts that an action changed.
func (c *Charm) Redesire(ctx context.Context, d Decision) (Decision, error) {
	seen, err := c.observe(ctx, d.Facts, d.Config, c.showUnits(ctx))
	if err == nil {
		d.Want, err = c.decideRole(ctx, seen)
	}
	return d, err
}
