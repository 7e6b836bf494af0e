package charm

import (
	"context"
	"fmt"
	"runtime"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/status"
)

// shared reports whether the releases lie on storage of several units.
func (o UnitObserved) shared() bool { return o.Config.SharedStorage != "none" }

// observeRelease decides on the release: the operator's version, else the
// web's, else with auto-upgrade the newest, else the one that this charm was
// tested with (D14). One that did not start here is not tried again.
func (c *Charm) observeRelease(ctx context.Context, o *UnitObserved, web string) error {
	if o.shared() && c.Tools != nil && c.Event.Action == nil { // it writes a probe
		o.Storage = concourse.SharedStorage(c.Host.Root)
	}
	version := o.Config.Version
	if version == "" {
		version = web
	}
	attached := Attached(o.Facts.Resource)
	if version == "" && !attached {
		version = concourse.TestedVersion
		if o.Config.AutoUpgrade {
			installed, _, _ := concourse.InstalledRelease(c.Host.Root)
			var remark string
			version, remark = concourse.Newest(ctx, c.Host, concourse.NewestQuery{Installed: installed, Arch: runtime.GOARCH,
				Token: o.Config.GitHubToken, Proxy: ProxyOf(o.Facts, o.Config), Offline: c.Tools == nil || c.Event.Action != nil})
			if remark != "" {
				o.Remarks = append(o.Remarks, remark)
			}
		}
	}
	r := &concourse.Release{Version: version, Resource: o.Facts.Resource, Mirror: o.Config.ReleaseMirror, SHA256: o.Config.ReleaseSHA256,
		Arch: runtime.GOARCH, Proxy: ProxyOf(o.Facts, o.Config), Sleep: c.Sleep, Shared: o.shared(), Unit: o.Facts.Unit, Token: o.Config.GitHubToken,
		Progress: func(text string) { c.say(ctx, text) }}
	r.Avoid(concourse.ReadFailed(c.Host.Root))
	if f, is := r.Avoided(c.Host.Root); is {
		o.Remarks = append(o.Remarks, fmt.Sprintf("Concourse %s did not start here (%s), so the one before it runs: set version=, or run restart-services force=true to try it again", f.Version, f.Why))
	}
	if !attached && r.Unauthenticated() {
		o.Remarks = append(o.Remarks, fmt.Sprintf("release-mirror is plain http, and the checksum of Concourse %s comes from there, too: anybody on the way can change both; set release-sha256, or use https", version))
	}
	o.Release = r
	var err error
	o.ReleaseID, err = r.ID(c.Host.Root)
	return jujuerrors.Annotate(err, "cannot observe the Concourse releases")
}

// desireRelease is the release and its folders; before comes when another one is
// about to take its place. Where the storage can't be
// used, the run ends there, and the status says why.
func desireRelease(d *Desired, o UnitObserved, before plan.Resource) {
	for _, text := range o.Remarks {
		d.Causes = append(d.Causes, status.Cause{Kind: status.Active, Text: text})
	}
	for _, text := range o.Config.Notes {
		d.Causes = append(d.Causes, status.Cause{Kind: status.Active, Text: text})
	}
	if o.Storage != nil {
		d.Resources = append(d.Resources, step{plan.Step{Op: "use the shared storage", Why: "shared-storage=" + o.Config.SharedStorage},
			func(context.Context, host.Host) error { return o.Storage }})
		return
	}
	d.Resources = append(d.Resources, concourse.ReleaseFolders(o.shared())...)
	r := *o.Release // what was observed stays as it is
	r.Before = before
	d.Resources = append(d.Resources, &r)
}
