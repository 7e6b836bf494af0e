package actions

import (
	"context"
	"fmt"
	"io"
	"strings"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/charm"
	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/concourse"
)

// Action runs the action that the event names. A failed action is no failed
// run: Juju hears of it through action-fail, beside what results there are.
func (c *Actions) Action(ctx context.Context) error {
	results, failed := c.actionResults(ctx)
	if err := c.Tools.ActionSet(ctx, results); err != nil {
		return jujuerrors.Annotate(err, "cannot report the action's results")
	}
	if failed != nil {
		return jujuerrors.Annotate(c.Tools.ActionFail(ctx, failed.Error()), "cannot report the failed action")
	}
	return nil
}

func (c *Actions) actionResults(ctx context.Context) (map[string]any, error) {
	name := c.Event.Action.Name
	do, ok := c.table()[name]
	if !ok {
		return nil, fmt.Errorf("cannot run action %q: no such action", name)
	}
	params, err := c.params(ctx)
	if err != nil {
		return nil, err
	}
	return do(ctx, params)
}

// action is what runs with an action's parameters. One that finds something broken
// has its results all the same, beside the error.
type action func(ctx context.Context, params map[string]any) (map[string]any, error)

// unitNow is the unit as an action finds it.
type unitNow struct {
	Facts    model.Facts
	Config   config.Config
	Want     charm.Desired
	Problems []config.Problem
}

// work is an action that looks at or changes the running unit. It holds the lock
// that hooks hold.
func (c *Actions) work(do func(ctx context.Context, u unitNow, params map[string]any) (map[string]any, error)) action {
	return func(ctx context.Context, params map[string]any) (map[string]any, error) {
		unlock, err := c.Host.Lock(charm.LockFile)
		if err != nil {
			return nil, fmt.Errorf("cannot lock %s: %w", charm.LockFile, err)
		}
		defer unlock()
		var u unitNow
		d, err := c.Decide(ctx)
		if err != nil {
			return nil, err
		}
		u.Facts, u.Want, u.Problems = d.Facts, d.Want, d.Problems
		u.Config, _ = config.Parse(u.Facts.Config, u.Facts.Secrets)
		return do(ctx, u, params)
	}
}

// usable is what actions need that change something.
func (u unitNow) usable(action string, role model.Role) error {
	if len(u.Problems) > 0 {
		return fmt.Errorf("cannot %s: options are wrong: %s", action, u.Problems[0])
	}
	if len(u.Want.Refused) > 0 {
		return fmt.Errorf("cannot %s: the unit is not taken over from the Python charm yet: %s", action, u.Want.Refused[0].Text)
	}
	if role != "" && u.Facts.Role != role {
		other := map[model.Role]string{model.WebRole: "a worker; run it on the web's unit", model.WorkerRole: "the web; run it on a worker's unit"}[role]
		return fmt.Errorf("cannot %s: this unit is %s", action, other)
	}
	return nil
}

// apply is a hook's work in an action, after the action changed what is wanted.
func (c *Actions) apply(ctx context.Context, facts model.Facts, want charm.Desired) error {
	due, _, err := c.Plan(ctx, want)
	if err != nil {
		return err
	}
	if _, err := due.Apply(ctx, c.say(ctx)); err != nil {
		return err
	}
	if err := model.Save(c.Host.Root, model.Facts{}, facts); err != nil {
		return jujuerrors.Annotate(err, "cannot keep what Juju says")
	}
	return c.Publish(ctx, facts, want)
}

// say shows who waits for the action how far it is. That it can't be shown is no
// reason to stop.
func (c *Actions) say(ctx context.Context) func(string) {
	return func(text string) { _ = c.Tools.ActionLog(ctx, text) }
}

func (c *Actions) api(u unitNow) *concourse.API {
	return concourse.NewAPI(u.Want.Web.LocalURL, u.Config.InitialAdminUsername, u.Want.Web.Secret[model.AdminPassword], "")
}

// answer is an action whose result, called key, is the text that a person gets on
// the unit.
func (c *Actions) answer(key string, write func(ctx context.Context, w io.Writer, params map[string]any, f term.Format) error) action {
	return func(ctx context.Context, params map[string]any) (map[string]any, error) {
		var b strings.Builder
		err := write(ctx, &b, params, term.Format{JSON: params["format"] == "json"})
		text := strings.TrimSpace(b.String())
		if text == "" {
			return nil, err
		}
		return map[string]any{key: text}, err
	}
}
