// Package charm is the heart: it turns one Juju event into a machine that is
// as the model wants it. Every hook runs the same pipeline, observe ->
// validate -> desire -> plan -> guard -> apply -> publish -> status, so that
// no hook depends on another having run, and a hook that was killed anywhere
// is made good by the next one. Desire is pure; everything else is small.
package charm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/juju"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
	"concourse-ci-machine/internal/gpu/amd"
)

// Charm is one run of the charm.
type Charm struct {
	Host     host.Host
	Tools    *juju.Tools
	Event    juju.Event
	CharmDir string        // where the charm is unpacked, as this process opens it
	NewID    func() string // a fresh random id of 8 hex digits
	// NewSecrets makes a web's keys and password; nil makes real ones.
	NewSecrets func() (concourse.WebSecrets, error)
	Stderr     io.Writer // goes to the unit's log

	WorkerURL   string // where the unit's worker tells of its containers; "" for its port, of the machine's own root only
	ExporterURL string // where the exporter lists its GPUs; "" for port 9401, of the machine's own root only
}

// LockFile keeps two runs apart: Juju starts one hook at a time, people do not.
const LockFile = resource.StampDir + "/lock"

// Hook runs the pipeline for a hook. A nil error means that the machine
// converged, or that the status says honestly why it did not; an error means
// that running the hook again can help, and Juju does so.
func (c *Charm) Hook(ctx context.Context) error {
	unlock, err := c.Host.Lock(LockFile)
	if err != nil {
		return jujuerrors.Annotatef(err, "cannot lock %s", LockFile)
	}
	defer unlock()
	p, err := c.putBack(ctx)
	if err != nil {
		return err
	}
	if err := c.logPlan(ctx, p, nil); err != nil {
		return err
	}
	back, err := c.converge(ctx, true)
	if back {
		_, err = c.converge(ctx, false)
	}
	return c.showFull(ctx, err)
}

// putBack ends what a run began that was killed while others' files were away,
// before anybody looks at the machine: it is to be seen as it was.
func (c *Charm) putBack(ctx context.Context) (plan.Plan, error) {
	p, err := amd.ToolkitKept().Diff(ctx, c.Host)
	if err != nil {
		return nil, err
	}
	_, err = p.Apply(ctx, c.say(ctx))
	return p, err
}

// converge is one run. back says that it has to be followed by another: it
// started another release, which ended at once, and the next run goes back to the
// one before, and stays there (watch is false) however that one fares; or it had
// GPUs described, which the next one hands out, or installed a release that the
// next one asks what its worker can limit.
func (c *Charm) converge(ctx context.Context, watch bool) (back bool, err error) {
	facts, want, problems, err := c.Decide(ctx)
	if err != nil {
		return false, err
	}
	if len(problems) > 0 {
		return false, c.endOnly(ctx, facts, want, problems)
	}
	if len(want.Refused) > 0 {
		return false, c.setStatus(ctx, status.Of("", want.Refused))
	}
	upgrades := false
	if !want.Remove {
		_, _, upgrades = release.Upgrades(c.Host.Root, want.Release)
	}
	due, deferred, err := c.Plan(ctx, want)
	if err != nil {
		return false, err
	}
	if err := c.logPlan(ctx, due, deferred); err != nil {
		return false, err
	}
	notes, err := due.Apply(ctx, c.say(ctx))
	if err != nil {
		return false, c.failed(ctx, want, err)
	}
	if err := c.logNotes(ctx, notes); err != nil {
		return false, err
	}
	if err := c.forgetFailures(); err != nil {
		return false, err
	}
	if want.Remove {
		return false, c.setStatus(ctx, status.Status{Kind: status.Maintenance, Message: "Stopped"})
	}
	if upgrades && watch {
		if back, err := c.watchUpgrade(ctx, want); back || err != nil {
			return back, err
		}
	}
	if watch && brought(want.Worker, len(due) > 0) {
		return true, nil
	}
	if watch && (c.describedNow(want.Worker) || c.limitUnknown(want.Worker)) {
		return true, nil
	}
	return false, c.tell(ctx, facts, want, deferred, notes, len(due) > 0)
}

// tell is what comes after applying: relations, secrets, and the status.
func (c *Charm) tell(ctx context.Context, facts model.Facts, want Desired, deferred plan.Plan, notes []plan.Note, changed bool) error {
	if err := c.Publish(ctx, facts, want); err != nil {
		return err
	}
	if err := c.forgetGone(facts, want, notes); err != nil {
		return err
	}
	if err := want.Worker.Known.Write(c.Host.Root); err != nil {
		return jujuerrors.Annotate(err, "cannot remember which GPUs there are")
	}
	causes := append(want.Causes, deferredCauses(deferred)...)
	causes = append(causes, c.noteCauses(want.Worker, notes)...)
	causes = append(causes, c.Check(ctx, want, changed)...)
	reboot, err := c.reboot(ctx, want.Worker)
	if err != nil {
		return err
	}
	causes = append(causes, reboot...)
	return c.setStatus(ctx, status.Of(c.ready(want), causes))
}

// Decide runs the pipeline up to desire. If options have problems, it returns only what ends
// all the same.
func (c *Charm) Decide(ctx context.Context) (model.Facts, Desired, []config.Problem, error) {
	last, err := model.Load(c.Host.Root)
	if err != nil && (c.Tools == nil || !errors.Is(err, model.ErrDamaged)) {
		return last, Desired{}, nil, err
	}
	facts := last
	units := c.showUnits(ctx) // while Juju is asked: neither needs the other
	if c.Tools != nil {
		_, _, installed := release.Installed(c.Host.Root)
		if facts, err = model.Observe(ctx, c.Tools, c.Event, last, installed, c.Host.Now()); err != nil {
			return facts, Desired{}, nil, err
		}
	}
	cfg, problems := config.Parse(facts.Config, facts.Secrets)
	var refused []error
	if len(problems) == 0 {
		if refused, err = c.completeSecret(&facts, cfg); err != nil {
			return facts, Desired{}, nil, err
		}
	}
	cfg = cfg.WithDefaults(problems)
	// What remove takes away is not made again.
	if c.Tools != nil && c.Event.Action == nil && c.Event.Name != "remove" {
		if err := model.Save(c.Host.Root, last, facts); err != nil {
			return facts, Desired{}, nil, jujuerrors.Annotate(err, "cannot keep what Juju says")
		}
	}
	if len(problems) > 0 && !model.Leaving(c.Event.Name) {
		want, err := c.desireEnding(ctx, facts, cfg, units)
		return facts, want, problems, err
	}
	seen, err := c.observe(ctx, facts, cfg, units)
	if err != nil {
		return facts, Desired{}, nil, err
	}
	seen.Refused = append(seen.Refused, refused...)
	want, err := c.decideRole(ctx, seen)
	return facts, want, nil, err
}

// Plan is what is missing, without the steps that the guard holds back.
func (c *Charm) Plan(ctx context.Context, want Desired) (due, deferred plan.Plan, err error) {
	all, err := plan.Diff(ctx, c.Host, want.Resources...)
	if err != nil {
		return nil, nil, jujuerrors.Trace(err)
	}
	due, deferred = guard(all, want.EndsTasks)
	return due, deferred, nil
}

func (c *Charm) logPlan(ctx context.Context, due, deferred plan.Plan) error {
	if len(due) == 0 { // what is held back stands in the status, hook after hook
		return nil
	}
	var b strings.Builder
	b.WriteString("plan:\n")
	if err := PrintPlan(&b, due, deferred); err != nil {
		return err
	}
	return c.Tools.Log(ctx, juju.Info, strings.TrimSpace(b.String()))
}

// logNotes has the failures that were tolerated in the unit's log, each in one line: the
// status has them in short, or not at all.
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

// say sets a passing maintenance status: each step is shown while it is done. A
// status that can't be set is no reason to stop in the middle of the work.
func (c *Charm) say(ctx context.Context) func(text string) {
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
	return jujuerrors.Annotate(c.Tools.StatusSet(ctx, juju.Status(s.Kind), s.Message), "cannot tell Juju the status")
}

func causesOf(problems []config.Problem) []status.Cause {
	var causes []status.Cause
	for _, p := range problems {
		causes = append(causes, status.Cause{Kind: status.Blocked, Text: p.String()})
	}
	return causes
}

// Redesire is the pipeline up to desire for facts that an action changed.
func (c *Charm) Redesire(ctx context.Context, facts model.Facts, cfg config.Config) (Desired, error) {
	seen, err := c.observe(ctx, facts, cfg, c.showUnits(ctx))
	if err != nil {
		return Desired{}, err
	}
	return c.decideRole(ctx, seen)
}
