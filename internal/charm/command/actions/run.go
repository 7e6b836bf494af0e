package actions

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	jujuerrors "github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// Action runs the action of the event. A failed action is not a failed run: Juju gets the
// error through action-fail, with the results.
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

// action runs with an action's parameters. If it finds a failure it returns the results and
// the error.
type action func(ctx context.Context, params map[string]any) (map[string]any, error)

// lockedAction returns an action that reads or changes the running unit. It holds the lock
// of the hooks.
func (c *Actions) lockedAction(
	do func(ctx context.Context, u charm.Decision, params map[string]any) (map[string]any, error)) action {
	return func(ctx context.Context, params map[string]any) (map[string]any, error) {
		unlock, err := c.Host.Lock(charm.LockFile)
		if err != nil {
			return nil, fmt.Errorf("cannot lock %s: %w", charm.LockFile, err)
		}
		defer unlock()
		u, err := c.Decide(ctx)
		if err != nil {
			return nil, err
		}
		return do(ctx, u, params)
	}
}

// checkUsable returns an error if the unit cannot run an action that changes it.
func checkUsable(u charm.Decision, action string, role model.Role) error {
	if len(u.Problems) > 0 {
		return fmt.Errorf("cannot %s: options are wrong: %s", action, u.Problems[0])
	}
	if len(u.Want.Refused) > 0 {
		return fmt.Errorf("cannot %s: the unit is not taken over from the Python charm yet: %s", action,
			u.Want.Refused[0].Text)
	}
	if role != "" && u.Facts.Role != role && u.Facts.Role != model.AllRole {
		other := map[model.Role]string{
			model.WebRole:    "a worker; run it on the web's unit",
			model.WorkerRole: "the web; run it on a worker's unit",
		}[role]
		return fmt.Errorf("cannot %s: this unit is %s", action, other)
	}
	return nil
}

// apply does a hook's work in an action, after the action changed the desired state.
func (c *Actions) apply(ctx context.Context, u charm.Decision) error {
	due, _, err := c.Plan(ctx, u.Want)
	if err != nil {
		return err
	}
	if _, err := due.Apply(ctx, c.logProgress(ctx)); err != nil {
		return err
	}
	if err := model.Save(c.Host.Root, model.Facts{}, u.Facts); err != nil {
		return jujuerrors.Annotate(err, "cannot store Juju's facts")
	}
	return c.Publish(ctx, u)
}

// logProgress returns a function that shows the action's progress in Juju. Its errors are
// ignored, because progress is not essential.
func (c *Actions) logProgress(ctx context.Context) func(string) {
	return func(text string) { _ = c.Tools.ActionLog(ctx, text) }
}

func (c *Actions) webAPI(u charm.Decision) *concourse.API {
	return concourse.NewAPI(
		u.Want.Web.LocalURL, u.Config.Web.InitialAdminUsername, u.Want.Web.Secret[model.AdminPassword])
}

// params holds the parameters of an action.
type params map[string]any

// text returns a parameter, "" if it is missing.
func (p params) text(name string) string {
	s, _ := p[name].(string)
	return s
}

// gpu returns the GPU that an action needs. list is the action that lists the names.
func (p params) gpu(verb, list string) (string, error) {
	which, ok := p["gpu"]
	if !ok {
		return "", fmt.Errorf("cannot %s a GPU without its number or name: give gpu=<gpu>, as %s shows it", verb, list)
	}
	return fmt.Sprint(which), nil
}

// writer writes the text of an action.
type writer func(ctx context.Context, w io.Writer, p params, f term.Format) error

func withoutParams(write func(context.Context, io.Writer, term.Format) error) writer {
	return func(ctx context.Context, w io.Writer, _ params, f term.Format) error { return write(ctx, w, f) }
}

func withoutContext(write func(io.Writer, term.Format) error) writer {
	return func(_ context.Context, w io.Writer, _ params, f term.Format) error { return write(w, f) }
}

// textAction returns an action with one result, called key. The result is the text that the
// command prints on the unit.
func (c *Actions) textAction(key string, write writer) action {
	return func(ctx context.Context, params map[string]any) (map[string]any, error) {
		var b strings.Builder
		err := write(ctx, &b, params, term.Format{Commands: c.Commands(), JSON: params["format"] == "json"})
		text := strings.TrimSpace(b.String())
		if text == "" {
			return nil, err
		}
		return map[string]any{key: text}, err
	}
}

// params returns the action's parameters, and refuses unknown ones. Versions of Juju differ
// in the parameters that they let through, and a misspelt parameter must not run the action
// with the default.
func (c *Actions) params(ctx context.Context) (map[string]any, error) {
	given, err := c.Tools.ActionGet(ctx)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(c.CharmDir, "actions.yaml"))
	if err != nil {
		return nil, fmt.Errorf("cannot check the action's parameters: %w", err)
	}
	var declared map[string]struct{ Params map[string]any }
	if err := yaml.Unmarshal(data, &declared); err != nil {
		return nil, fmt.Errorf("cannot check the action's parameters: actions.yaml: %w", err)
	}
	name := c.Event.Action.Name
	known := declared[name].Params
	for _, p := range slices.Sorted(maps.Keys(given)) {
		if _, ok := known[p]; ok {
			continue
		}
		takes := "takes none"
		if len(known) > 0 {
			takes = "takes " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
		}
		return nil, fmt.Errorf("cannot run %s with the parameter %q: it %s; nothing was done", name, p, takes)
	}
	return given, nil
}
