package charm

import (
	"context"
	"fmt"
	"path"
	"time"

	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
)

// upgradeTime is how long a unit that was just started with another release is
// watched before it counts as started: one that can't run ends sooner.
const upgradeTime = 20 * time.Second

// watchUpgrade looks whether the unit stays up with its new release. If not,
// that release is noted as failed, and the one before it is to be used again.
func (c *Charm) watchUpgrade(ctx context.Context, want Desired) (back bool, err error) {
	unit := want.MainUnit()
	if unit == "" {
		return false, nil
	}
	before, _, ok := release.Previous(c.Host.Root)
	version, id, running := release.Installed(c.Host.Root)
	if !ok || !running {
		return false, nil
	}
	for waited := time.Duration(0); waited < upgradeTime; waited += role.SettlePoll {
		states, err := resource.ShowUnits(ctx, c.Host, unit)
		if err != nil {
			return false, err
		}
		s := states[unit]
		if s.Active == "failed" || s.Sub == "auto-restart" {
			if !c.canGoBack(ctx, want) {
				return false, nil
			}
			why := "it ended when it was started; see journalctl --unit " + unit
			c.say(ctx)(fmt.Sprintf("Going back to Concourse %s: %s ended when it was started", before, version))
			return true, release.MarkFailed(c.Host.Root, id, version, why)
		}
		if c.answers200(ctx, want) {
			return false, nil
		}
		c.Host.Sleep(role.SettlePoll)
	}
	return false, nil
}

func (c *Charm) answers200(ctx context.Context, want Desired) bool {
	if want.Web.Up {
		return concourse.CheckWeb(ctx, want.Web.LocalURL).State == concourse.Healthy
	}
	return concourse.CheckHealth(ctx, c.healthURL()).State == concourse.Healthy
}

// canGoBack reports whether the release before knows the database as the new
// one left it; a worker has none.
func (c *Charm) canGoBack(ctx context.Context, want Desired) bool {
	if !want.Web.Up {
		return true
	}
	_, id, ok := release.Previous(c.Host.Root)
	_, now, used := release.Installed(c.Host.Root)
	if !ok || !used {
		return false
	}
	can, _, err := concourse.CanUse(ctx, c.Host, path.Join(release.Dir, id), path.Join(release.Dir, now), want.Web.Database, want.Web.Environment)
	return err == nil && can
}
