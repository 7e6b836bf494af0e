package role

import (
	"context"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse/release"
)

// Shared reports whether several units share the storage of releases.
func (o Observed) Shared() bool { return o.Config.SharedStorage != "none" }

// DesireRelease installs the release and its folders. before runs when another release is
// about to replace the current one. If the storage cannot be used, the run ends there, and
// the status shows the reason.
func DesireRelease(d *Desired, o Observed, before plan.Resource) {
	for _, text := range o.Remarks {
		d.Causes = append(d.Causes, status.Cause{Kind: status.Active, Text: text})
	}
	for _, text := range o.Config.Notes {
		d.Causes = append(d.Causes, status.Cause{Kind: status.Active, Text: text})
	}
	if o.Storage != nil {
		d.Resources = append(d.Resources, StepOf("use the shared storage", "shared-storage="+o.Config.SharedStorage,
			func(context.Context, host.Host) error { return o.Storage }))
		return
	}
	d.Resources = append(d.Resources, release.Folders(o.Shared())...)
	d.Resources = append(d.Resources, release.Install{Release: o.Release, Before: before})
}
