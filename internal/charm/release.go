package charm

import (
	"context"
	"fmt"
	"runtime"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse/release"
)

// observeRelease decides on the release: the operator's version, else the
// web's, else with auto-upgrade the newest, else the one that this charm was
// tested with (D14). One that did not start here is not tried again.
func (c *Charm) observeRelease(ctx context.Context, o *role.Observed, web string) error {
	if o.Shared() && c.Tools != nil && c.Event.Action == nil { // it writes a probe
		o.Storage = release.SharedStorage(c.Host.Root)
	}
	version := o.Config.Version
	if version == "" {
		version = web
	}
	attached := role.Attached(o.Facts.Resource)
	if version == "" && !attached {
		version = release.TestedVersion
		if o.Config.AutoUpgrade {
			installed, _, _ := release.Installed(c.Host.Root)
			var remark string
			version, remark = release.Newest(ctx, c.Host, release.NewestQuery{Installed: installed, Arch: runtime.GOARCH,
				Token: o.Config.GitHubToken, Proxy: role.ProxyOf(o.Facts, o.Config), Offline: c.Tools == nil || c.Event.Action != nil})
			if remark != "" {
				o.Remarks = append(o.Remarks, remark)
			}
		}
	}
	r, err := release.Observe(c.Host.Root, release.Release{Version: version, Resource: o.Facts.Resource, Mirror: o.Config.ReleaseMirror, SHA256: o.Config.ReleaseSHA256,
		Arch: runtime.GOARCH, Proxy: role.ProxyOf(o.Facts, o.Config), Shared: o.Shared(), Unit: o.Facts.Unit, Token: o.Config.GitHubToken})
	if err == nil {
		o.Release = r
		o.ReleaseID, err = r.ID(c.Host.Root)
	}
	if err != nil {
		return jujuerrors.Annotate(err, "cannot observe the Concourse releases")
	}
	if f, is := r.Avoided(c.Host.Root); is {
		o.Remarks = append(o.Remarks, fmt.Sprintf("Concourse %s did not start here (%s), so the one before it runs: set version=, or run restart-services force=true to try it again", f.Version, f.Why))
	}
	if !attached && r.Unauthenticated() {
		o.Remarks = append(o.Remarks, fmt.Sprintf("release-mirror is plain http, and the checksum of Concourse %s comes from there, too: anybody on the way can change both; set release-sha256, or use https", version))
	}
	return nil
}
