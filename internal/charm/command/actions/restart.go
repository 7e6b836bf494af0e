package actions

import (
	"context"
	"fmt"
	"strings"

	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse/release"
)

// restartServices restarts the units of this unit's role, and with force
// forgets what hooks remember of failures: a release that was given up is
// tried again, a worker that was landed takes work again.
func (c *Actions) restartServices(ctx context.Context, u unitState, params map[string]any) (map[string]any, error) {
	if err := u.checkUsable("restart", ""); err != nil {
		return nil, err
	}
	if force, _ := params["force"].(bool); force {
		if err := release.ForgetFailed(c.Host.Root); err != nil {
			return nil, err
		}
	}
	if c.Host.Exists(role.LandedFile) {
		if err := c.Host.Remove(role.LandedFile); err != nil {
			return nil, err
		}
		var err error
		if u.Want, err = c.Redesire(ctx, u.Facts, u.Config); err != nil {
			return nil, err
		}
	}
	var units []string
	if unit := u.Want.MainUnit(); unit != "" {
		units = append(units, unit)
	}
	if u.Want.Worker.Exporter || u.Want.Web.Jobs {
		units = append(units, role.PebbleUnit)
	}
	if len(units) == 0 {
		return nil, fmt.Errorf("cannot restart: nothing of this unit is to be running yet; juju status says why")
	}
	for _, unit := range units {
		if _, err := c.Host.Run(ctx, resource.Systemctl("restart", unit)); err != nil {
			return map[string]any{"restarted": strings.Join(units, " ")}, err
		}
	}
	causes := c.Check(ctx, u.Want, true)
	results := map[string]any{"restarted": strings.Join(units, " ")}
	for _, cause := range causes {
		if cause.Kind != status.Active {
			return results, fmt.Errorf("cannot reach what was restarted: %s", cause.Text)
		}
	}
	return results, nil
}
