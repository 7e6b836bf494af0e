package worker

import (
	"context"
	"path"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
)

// beforeWorkerSwitch lets the tasks of a running worker end before its programs
// are replaced. Those that take longer go on under the new ones. An attached
// release that is not the wanted version ends nothing.
func beforeWorkerSwitch(o Observed) plan.Resource {
	state := o.Units[concourse.Unit]
	if !state.Running() {
		return nil
	}
	return role.Series{
		role.StepOf("look at the version of the release", "before tasks are drained for it", func(_ context.Context, h host.Host) error {
			got, err := h.ReadText(path.Join(release.Dir, o.ReleaseID, "VERSION"))
			if _, back := o.Release.Avoided(h.Root); err == nil && !back && o.Release.Version != "" && got != o.Release.Version {
				err = &release.VersionError{Path: "the attached release", Want: o.Release.Version, Got: got}
			}
			return err
		}),
		concourse.Retire{State: state, Limit: o.Config.WorkerDrainTimeout, Why: "another release of Concourse takes its place"},
	}
}
