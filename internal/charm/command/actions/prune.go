package actions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/charm/model"
)

// pruneWorker takes a worker that is gone from the web's list.
func (c *Actions) pruneWorker(ctx context.Context, u unitNow, params map[string]any) (map[string]any, error) {
	if err := u.usable("prune a worker", model.WebRole); err != nil {
		return nil, err
	}
	name, _ := params["worker"].(string)
	if name == "" {
		return nil, fmt.Errorf("cannot prune a worker without its name: give worker=<name> as fly workers shows it")
	}
	if !u.Want.Web.Up {
		return nil, fmt.Errorf("cannot prune a worker: the web is not running; juju status says why")
	}
	if err := c.expel(ctx, u, name); err != nil {
		return nil, err
	}
	api := c.api(u)
	workers, err := api.Workers(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, w := range workers {
		names = append(names, w.Name+" ("+w.State+")")
		if w.Name != name {
			continue
		}
		// One whose tasks did not end while its unit was there stays as retiring.
		leaves := w.State == "landing" || w.State == "retiring"
		if w.State == "running" && u.Facts.Web.HasLeft(name) && !u.Facts.Web.Related(name) {
			// Without its key it stays in the list as running for a while.
			if err := api.Land(ctx, w); err != nil {
				return nil, err
			}
			w.State = "landing"
		}
		if w.State == "running" || leaves && u.Facts.Web.Related(name) {
			return nil, fmt.Errorf("cannot prune worker %s: it is %s; stop it first (juju run <its unit> land-worker)", name, w.State)
		}
		if err := api.Prune(ctx, name); err != nil {
			return nil, err
		}
		return map[string]any{"pruned": name}, nil
	}
	return nil, fmt.Errorf("cannot prune worker %q: the web has %s", name, orNone(names))
}

// expel takes the key of a worker that left and drains, and cuts it off: who prunes it
// does not wait for its tasks. The next hook forgets it.
func (c *Actions) expel(ctx context.Context, u unitNow, name string) error {
	if !u.Facts.Web.HasLeft(name) {
		return nil
	}
	facts, web := u.Facts, *u.Facts.Web
	web.Departed = slices.Clone(web.Departed)
	for i := range web.Departed {
		if web.Departed[i].Name == name {
			web.Departed[i].Until = time.Time{}
		}
	}
	facts.Web = &web
	want, err := c.Redesire(ctx, facts, u.Config)
	if err != nil {
		return err
	}
	return c.apply(ctx, facts, want)
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "no workers"
	}
	return strings.Join(names, ", ")
}
