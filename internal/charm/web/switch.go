package web

import (
	"context"
	"path"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
)

// beforeWebSwitch refuses a release that does not know the database as it is:
// Concourse itself would start, and fail at every query.
func beforeWebSwitch(o Observed, db concourse.WebDatabase, env map[string]string) plan.Resource {
	return role.StepOf("compare the database with the release", "a release that is older than the database can't use it",
		func(ctx context.Context, h host.Host) error {
			from, id, used := release.Installed(h.Root)
			inUse := ""
			if used {
				inUse = path.Join(release.Dir, id)
			}
			can, supported, err := concourse.CanUse(ctx, h, path.Join(release.Dir, o.ReleaseID), inUse, db, env)
			if err != nil {
				return databaseError{err}
			}
			if !can {
				return &release.DowngradeError{From: from, To: release.VersionOf(h.Root, o.ReleaseID), Schema: supported}
			}
			return nil
		})
}
