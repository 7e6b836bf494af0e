package actions

import (
	"context"
	"fmt"
	"strconv"

	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/web"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
)

// runMigrations brings the database to the version that the release supports
// or to an older one, with the web stopped meanwhile.
func (c *Actions) runMigrations(ctx context.Context, u unitNow, params map[string]any) (map[string]any, error) {
	if err := u.usable("migrate", model.WebRole); err != nil {
		return nil, err
	}
	if !u.Want.Web.Up {
		return nil, fmt.Errorf("cannot migrate: the web has no database yet; juju status says what it waits for")
	}
	current, supported, err := concourse.DatabaseVersions(ctx, c.Host, release.Link, u.Want.Web.Database, u.Want.Web.Environment)
	if err != nil {
		return nil, err
	}
	results := map[string]any{"before": current, "supported": supported, "after": current}
	to := supported
	if text, _ := params["target-version"].(string); text != "" {
		if to, err = strconv.Atoi(text); err != nil || to < 1 {
			return results, fmt.Errorf("cannot migrate to %q: want a version of the database's schema like %d, or nothing for that", text, supported)
		}
	}
	if to == current {
		results["message"] = "the database has this version"
		return results, nil
	}
	if err := concourse.CanMigrate(current, supported, to); err != nil {
		return results, err
	}
	down, api := to < current, c.api(u)
	if down { // a web of the older release may have no workers at first
		c.say(ctx)("Waiting for running builds to end")
		if err := web.HoldBuilds(ctx, c.Host, api, u.Facts.Web.Workers); err != nil {
			c.say(ctx)(fmt.Sprintf("Builds: %v", err))
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
