package charm

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"runtime"
	"time"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// observeRelease decides on the release. The order is: the operator's version, the web's,
// the newest one with auto-upgrade, and the version that this charm was tested with (D14).
// A release that failed to start here is not used again.
func (c *Charm) observeRelease(ctx context.Context, o *role.Observed, web string) error {
	if o.Shared() && c.Tools != nil && c.Event.Action == nil { // it writes a test file
		o.Storage = release.SharedStorage(c.Host.Root)
	}
	version := o.Config.Release.Version
	version = cmp.Or(version, web)
	attached := role.Attached(o.Facts.Resource)
	if version == "" && !attached {
		version = release.TestedVersion
		if o.Config.Release.AutoUpgrade {
			installed, _, _ := release.Installed(c.Host.Root)
			var remark string
			version, remark = release.Newest(ctx, c.Host, release.NewestQuery{Installed: installed,
				Arch:  runtime.GOARCH,
				Token: o.Config.Release.GitHubToken, Proxy: role.ProxyOf(o.Facts, o.Config),
				Offline: c.Tools == nil || c.Event.Action != nil})
			if remark != "" {
				o.Remarks = append(o.Remarks, status.Warn("%s", remark))
			}
		}
	}
	r, err := release.Observe(c.Host.Root, release.Release{Version: version, Resource: o.Facts.Resource,
		Mirror: o.Config.Release.Mirror, SHA256: o.Config.Release.SHA256,
		Arch: runtime.GOARCH, Proxy: role.ProxyOf(o.Facts, o.Config), Shared: o.Shared(), Unit: o.Facts.Unit,
		Token: o.Config.Release.GitHubToken})
	if err == nil {
		o.Release = r
		o.ReleaseID, err = r.ID(c.Host.Root)
	}
	if err != nil {
		return jujuerrors.Annotate(err, "cannot observe the Concourse releases")
	}
	if f, is := r.Avoided(c.Host.Root); is {
		o.Remarks = append(o.Remarks, status.Warn("Concourse %s did not start, and the previous release runs",
			f.Version).
			Explain("%s; set version=, or try it again", f.Why).
			Run(o.Facts.Commands().RunAction("restart-services force=true")))
	}
	if !attached && r.Unauthenticated() {
		o.Remarks = append(o.Remarks, status.Warn("release-mirror is plain http: set release-sha256, or use https").
			Explain("the checksum of Concourse %s comes from there, too: anybody on the way can change both",
				version))
	}
	return nil
}

// upgradeTime is how long a hook watches a unit after its start with another release. A
// release that cannot run ends sooner.
const upgradeTime = 20 * time.Second

// watchUpgrade watches the unit after its start with a new release. If the unit ends, that
// release is marked as failed, and failed is true. Then the previous release must be used
// again.
func (c *Charm) watchUpgrade(ctx context.Context, want Desired) (failed bool, err error) {
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
			c.showProgress(ctx)(fmt.Sprintf("Going back to Concourse %s: %s ended when it was started",
				before, version))
			return true, release.MarkFailed(c.Host.Root, id, version, why)
		}
		if c.answers(ctx, want) {
			return false, nil
		}
		c.Host.Sleep(role.SettlePoll)
	}
	return false, nil
}

// answers reports whether the unit's web or worker is healthy.
func (c *Charm) answers(ctx context.Context, want Desired) bool {
	if want.Web.Up {
		return concourse.CheckWeb(ctx, want.Web.LocalURL).State == concourse.Healthy
	}
	return concourse.CheckHealth(ctx, c.healthURL()).State == concourse.Healthy
}

// canGoBack reports whether the previous release supports the schema of the database after
// the upgrade. A worker has no database.
func (c *Charm) canGoBack(ctx context.Context, want Desired) bool {
	if !want.Web.Up {
		return true
	}
	_, id, ok := release.Previous(c.Host.Root)
	_, installed, used := release.Installed(c.Host.Root)
	if !ok || !used {
		return false
	}
	can, _, err := concourse.CanUse(ctx, c.Host, path.Join(release.Dir, id), path.Join(release.Dir, installed),
		want.Web.Database, want.Web.Environment)
	return err == nil && can
}
