package actions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
)

func (c *Actions) planAction(ctx context.Context, u charm.Decision, _ map[string]any) (map[string]any, error) {
	text, steps, err := c.formatPlan(ctx, u.Want, u.Problems)
	if err != nil {
		return nil, err
	}
	return map[string]any{"plan": strings.TrimSpace(text), "steps": steps}, nil
}

// ShowPlan prints what the next hook would do, with Juju's facts from the last hook. It
// changes nothing.
func (c *Actions) ShowPlan(ctx context.Context, w io.Writer) error {
	facts, err := model.LoadFor(c.Host.Root, "plan")
	if err != nil {
		return err
	}
	if facts.Unit == "" {
		return errors.New("cannot plan: no hook has run on this machine yet")
	}
	c.Event = juju.Event{Name: "update-status", Unit: facts.Unit}
	text, _, err := c.planText(ctx)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

// planText returns the plan as text, and its number of steps.
func (c *Actions) planText(ctx context.Context) (string, int, error) {
	d, err := c.Decide(ctx)
	if err != nil {
		return "", 0, err
	}
	return c.formatPlan(ctx, d.Want, d.Problems)
}

func (c *Actions) formatPlan(ctx context.Context, want charm.Desired, problems []config.Problem) (string, int, error) {
	var b strings.Builder
	if len(problems) > 0 {
		b.WriteString("nothing is done until these options are right:\n")
		for _, p := range problems {
			fmt.Fprintf(&b, "  %s\n", p)
		}
		ends, deferred, err := c.Plan(ctx, want)
		if err == nil && len(ends) > 0 {
			b.WriteString("but for what ends:\n")
			err = charm.PrintPlan(&b, ends, deferred)
		}
		return b.String(), len(ends), err
	}
	if len(want.Refused) > 0 {
		b.WriteString("nothing is done before the unit can be taken over from the Python charm:\n")
		for _, cause := range want.Refused {
			fmt.Fprintf(&b, "  %s: %s\n", cause.Kind, cause.Text)
		}
		return b.String(), 0, nil
	}
	due, deferred, err := c.Plan(ctx, want)
	if err != nil {
		return "", 0, err
	}
	for _, cause := range want.Causes {
		fmt.Fprintf(&b, "%s: %s\n", cause.Kind, cause)
	}
	if want.Worker.Driver != nil {
		if err := want.Worker.Driver.Decision.Print(&b); err != nil {
			return "", 0, err
		}
	}
	if len(due)+len(deferred) == 0 && want.NeedsOperator() {
		b.WriteString("nothing to do for the charm; the operator must do the steps above\n")
		return b.String(), 0, nil
	}
	err = charm.PrintPlan(&b, due, deferred)
	return b.String(), len(due), err
}
