package actions

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// restartServices restarts the units of this unit's role. With force it removes the record
// of a failed release, so that hooks try it again. A landed worker takes work again.
func (c *Actions) restartServices(ctx context.Context, u charm.Decision, params map[string]any) (
	map[string]any, error) {
	if err := checkUsable(u, "restart", ""); err != nil {
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
		if u, err = c.Redesire(ctx, u); err != nil {
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
		return nil, errors.New("cannot restart: this unit has no service to run yet; see " +
			c.Commands().ShowStatus())
	}
	for _, unit := range units {
		if err := c.restart(ctx, u, unit); err != nil {
			return map[string]any{"restarted": strings.Join(units, " ")}, err
		}
	}
	causes := c.Check(ctx, u.Want, charm.Restarted)
	results := map[string]any{"restarted": strings.Join(units, " ")}
	for _, cause := range causes {
		if cause.Kind != status.Active {
			return results, fmt.Errorf("cannot reach the restarted services: %s", cause)
		}
	}
	return results, nil
}

// restart restarts a unit.
func (c *Actions) restart(ctx context.Context, u charm.Decision, unit string) error {
	if unit == concourse.WebUnit {
		return web.Restart(ctx, c.Host, c.webAPI(u), u.Want.Web, u.Facts.Web.PeerAddress)
	}
	_, err := c.Host.Run(ctx, resource.Systemctl("restart", unit))
	return err
}

// runMigrations migrates the database to the version that the release supports, or to an
// older one, and stops the web during the migration.
func (c *Actions) runMigrations(ctx context.Context, u charm.Decision, params map[string]any) (map[string]any, error) {
	if err := checkUsable(u, "migrate", model.WebRole); err != nil {
		return nil, err
	}
	if !u.Want.Web.Up {
		return nil, errors.New("cannot migrate: the web has no database yet; see " +
			c.Commands().ShowStatus())
	}
	current, supported, err := concourse.DatabaseVersions(
		ctx, c.Host, release.Link, u.Want.Web.Database, u.Want.Web.Environment)
	if err != nil {
		return nil, err
	}
	results := map[string]any{"before": current, "supported": supported, "after": current}
	to := supported
	if text, _ := params["target-version"].(string); text != "" {
		if to, err = strconv.Atoi(text); err != nil || to < 1 {
			return results, fmt.Errorf(
				"cannot migrate to %q: want a version of the database's schema like %d, or nothing for that",
				text, supported)
		}
	}
	if to == current {
		results["message"] = "the database has this version"
		return results, nil
	}
	if err := concourse.CanMigrate(current, supported, to); err != nil {
		return results, err
	}
	down, api := to < current, c.webAPI(u)
	if down { // a web of the older release may have no workers at first
		c.logProgress(ctx)("Waiting for running builds to end")
		if err := web.HoldBuilds(ctx, c.Host, api, u.Facts.Web.Workers); err != nil {
			c.logProgress(ctx)(fmt.Sprintf("Builds: %v", err))
		}
	}
	if _, err := c.Host.Run(ctx, resource.Systemctl("stop", concourse.WebUnit)); err != nil {
		return results, err
	}
	failed := concourse.Migrate(ctx, c.Host, release.Link, u.Want.Web.Database, u.Want.Web.Environment, to)
	if failed == nil {
		results["after"] = to
	}
	if to < supported && failed == nil {
		results["message"] = "the web is stopped: the next hook starts the release that version= names; " +
			"if that is the newer one, it migrates up again"
		return results, nil
	}
	_, err = c.Host.Run(ctx, resource.Systemctl("start", concourse.WebUnit))
	if err == nil && down {
		err = web.ResumeBuilds(ctx, c.Host, api, u.Want.Web.LocalURL)
	}
	if failed == nil {
		failed = err
	}
	return results, failed
}

// adminPassword returns the first user's name and password. Without a secret it fails, so
// that it never returns an unused password (D24). Juju's tool takes results only as
// arguments: while it runs, a user of this machine can read the password.
func (c *Actions) adminPassword(_ context.Context, u charm.Decision, _ map[string]any) (map[string]any, error) {
	if err := checkUsable(u, "show the password", model.WebRole); err != nil {
		return nil, err
	}
	password := u.Facts.Web.Secret[model.AdminPassword]
	if u.Facts.Web.SecretID == "" || password == "" {
		return nil, errors.New("cannot show the password: it is not set yet; see " +
			c.Commands().ShowStatus())
	}
	return map[string]any{"username": u.Config.Web.InitialAdminUsername, "password": password,
		"message": "Use these credentials to login to Concourse web UI"}, nil
}
