package charm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/config"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/resource"
)

// work is an action that looks at or changes the running unit. It holds the
// lock that hooks hold.
type work func(ctx context.Context, u unitNow, params map[string]any) (map[string]any, error)

func (c *Charm) works() map[string]work {
	return map[string]work{
		"plan":               c.planAction,
		"accept-gpus":        c.acceptGPUs,
		"coverage":           c.coverage,
		"get-admin-password": c.adminPassword,
		"check-status":       c.checkStatus,
		"restart-services":   c.restartServices,
		"run-migrations":     c.runMigrations,
		"rotate-keys":        c.rotateKeys,
		"land-worker":        c.landWorker,
		"prune-worker":       c.pruneWorker,
		"reset-rocm":         c.resetROCm,
	}
}

// unitNow is the unit as an action finds it.
type unitNow struct {
	Facts    Facts
	Config   config.Config
	Want     Desired
	Problems []config.Problem
}

func (u unitNow) paths() concourse.WebPaths { return concourse.WebFiles(u.Want.Shared) }

// work runs one of them.
func (c *Charm) work(ctx context.Context, w work) (map[string]any, error) {
	params, err := c.params(ctx)
	if err != nil {
		return nil, err
	}
	unlock, err := c.Host.Lock(LockFile)
	if err != nil {
		return nil, fmt.Errorf("cannot lock %s: %w", LockFile, err)
	}
	defer unlock()
	var u unitNow
	if u.Facts, u.Want, u.Problems, err = c.decide(ctx); err != nil {
		return nil, err
	}
	u.Config, _ = config.Parse(u.Facts.Config, u.Facts.Secrets)
	return w(ctx, u, params)
}

// usable is what actions need that change something.
func (u unitNow) usable(action string, role Role) error {
	if len(u.Problems) > 0 {
		return fmt.Errorf("cannot %s: options are wrong: %s", action, u.Problems[0])
	}
	if len(u.Want.Refused) > 0 {
		return fmt.Errorf("cannot %s: the unit is not taken over from the Python charm yet: %s", action, u.Want.Refused[0].Text)
	}
	if role != "" && u.Facts.Role != role {
		other := map[Role]string{WebRole: "a worker; run it on the web's unit", WorkerRole: "the web; run it on a worker's unit"}[role]
		return fmt.Errorf("cannot %s: this unit is %s", action, other)
	}
	return nil
}

func (c *Charm) planAction(ctx context.Context, u unitNow, _ map[string]any) (map[string]any, error) {
	text, steps, err := c.planOf(ctx, u.Want, u.Problems)
	if err != nil {
		return nil, err
	}
	return map[string]any{"plan": strings.TrimSpace(text), "steps": steps}, nil
}

// apply is a hook's work in an action, after the action changed what is wanted.
func (c *Charm) apply(ctx context.Context, facts Facts, want Desired) error {
	due, _, err := c.plan(ctx, want)
	if err != nil {
		return err
	}
	if _, err := due.Apply(ctx, func(i, of int, s plan.Step) {
		// Who waits for the action sees how far it is; that it can't be shown is
		// no reason to stop.
		_ = c.Tools.ActionLog(ctx, fmt.Sprintf("%d/%d %s (%s)", i, of, s.Op, s.Why))
	}); err != nil {
		return err
	}
	if err := saveFacts(c.Host.Root, Facts{}, facts); err != nil {
		return jujuerrors.Annotate(err, "cannot keep what Juju says")
	}
	return c.publish(ctx, facts, want)
}

// restartServices restarts the units of this unit's role, and with force
// forgets what hooks remember of failures: a release that was given up is
// tried again, a worker that was landed takes work again.
func (c *Charm) restartServices(ctx context.Context, u unitNow, params map[string]any) (map[string]any, error) {
	if err := u.usable("restart", ""); err != nil {
		return nil, err
	}
	if force, _ := params["force"].(bool); force {
		if err := concourse.ForgetFailed(c.Host.Root); err != nil {
			return nil, err
		}
	}
	if c.Host.Exists(landedFile) {
		if err := c.Host.Remove(landedFile); err != nil {
			return nil, err
		}
		var err error
		if u.Want, err = c.desire(ctx, u.Facts, u); err != nil {
			return nil, err
		}
	}
	var units []string
	if unit := u.Want.mainUnit(); unit != "" {
		units = append(units, unit)
	}
	if u.Want.Exporter || u.Want.Jobs {
		units = append(units, PebbleUnit)
	}
	if len(units) == 0 {
		return nil, fmt.Errorf("cannot restart: nothing of this unit is to be running yet; juju status says why")
	}
	for _, unit := range units {
		if _, err := c.Host.Run(ctx, resource.Systemctl("restart", unit)); err != nil {
			return map[string]any{"restarted": strings.Join(units, " ")}, err
		}
	}
	causes := c.check(ctx, u.Want, true)
	results := map[string]any{"restarted": strings.Join(units, " ")}
	for _, cause := range causes {
		if cause.Kind != Active {
			return results, fmt.Errorf("cannot reach what was restarted: %s", cause.Text)
		}
	}
	return results, nil
}

// landedFile says that the operator landed this worker: hooks leave it down.
const landedFile = StateDir + "/landed"

// landWorker makes the worker finish what it does and stop. It stays stopped
// until restart-services; the web keeps its volumes.
func (c *Charm) landWorker(ctx context.Context, u unitNow, _ map[string]any) (map[string]any, error) {
	if err := u.usable("land the worker", WorkerRole); err != nil {
		return nil, err
	}
	if !u.Want.Worker {
		return nil, fmt.Errorf("cannot land the worker: it is not to be running; juju status says why")
	}
	if err := c.Host.WriteFile(landedFile, nil, 0o600); err != nil {
		return nil, err
	}
	// Disabled, as it would come back with the machine.
	for _, command := range []host.Command{resource.Systemctl("disable", concourse.Unit),
		resource.Systemctl("kill", "--kill-whom=main", "--signal=SIGUSR1", concourse.Unit)} {
		if _, err := c.Host.Run(ctx, command); err != nil {
			return nil, errors.Join(err, c.Host.Remove(landedFile)) // the next hook enables it again
		}
	}
	for waited := time.Duration(0); waited < u.Config.DrainTimeout; waited += landPoll {
		states, err := resource.ShowUnits(ctx, c.Host, concourse.Unit)
		if err != nil {
			return nil, err
		}
		if s := states[concourse.Unit]; !s.Running() {
			return map[string]any{"landed": true, "message": "the worker takes no work until restart-services"}, nil
		}
		c.Sleep(landPoll)
	}
	return map[string]any{"landed": false}, fmt.Errorf("cannot wait longer than worker-drain-timeout (%s) for the running tasks: the worker lands when they end, and takes no new ones", u.Config.DrainTimeout)
}

const landPoll = 2 * time.Second

// pruneWorker takes a worker that is gone from the web's list.
func (c *Charm) pruneWorker(ctx context.Context, u unitNow, params map[string]any) (map[string]any, error) {
	if err := u.usable("prune a worker", WebRole); err != nil {
		return nil, err
	}
	name, _ := params["worker"].(string)
	if name == "" {
		return nil, fmt.Errorf("cannot prune a worker without its name: give worker=<name> as fly workers shows it")
	}
	if !u.Want.Web {
		return nil, fmt.Errorf("cannot prune a worker: the web is not running; juju status says why")
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
		if w.State == "running" || leaves && u.Facts.Web.related(name) {
			return nil, fmt.Errorf("cannot prune worker %s: it is %s; stop it first (juju run <its unit> land-worker)", name, w.State)
		}
		if err := api.Prune(ctx, name); err != nil {
			return nil, err
		}
		return map[string]any{"pruned": name}, nil
	}
	return nil, fmt.Errorf("cannot prune worker %q: the web has %s", name, orNone(names))
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "no workers"
	}
	return strings.Join(names, ", ")
}

func (c *Charm) api(u unitNow) *concourse.API {
	return concourse.NewAPI(u.Want.LocalURL, u.Config.AdminUser, u.Want.Secret[adminPassword], "")
}

// readable is the content of a file that may be missing.
func readable(h host.Host, path string) string {
	text, err := h.ReadText(path)
	if err != nil {
		return ""
	}
	return text
}
