package charm

import (
	"context"
	"slices"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/web"
	"concourse-ci-machine/internal/charm/worker"
	"concourse-ci-machine/internal/concourse/release"
	"concourse-ci-machine/internal/gpu/amd"
)

// desireNothing is the unit on its way out. stop ends what runs, after its tasks had
// their time; remove takes away what the roles say they brought. Releases stay: they
// may be shared, and hold no secret.
func desireNothing(o role.Observed) role.Desired {
	const why = "the unit is being removed"
	d := role.Desired{Remove: true, Resources: slices.Concat(
		worker.Stop(o, why, role.RunningTasks, o.Config.DrainTimeout), web.Stop(o, why), role.StopPebble(o, why))}
	if o.Event != "remove" {
		return d
	}
	d.Resources = slices.Concat(d.Resources, worker.RemoveAll(o, why), web.Leave(why), role.LeavePebble(why), role.DesireTrust(o.Trust, nil), []plan.Resource{
		resource.Absent{Path: release.UnitRecord(o.Facts.Unit), Why: why},
		resource.Absent{Path: programs, Why: why, Tree: true},
		commandLinkGone{o.CharmDir, why},
		// What was brought is noted in StateDir, so that goes last.
		stateGone{why},
		resource.Absent{Path: versionFile, Why: why},
		resource.NoStamps{Why: why},
	})
	return d
}

// programs is the charm's own folder: the link to the release, wrapper and dispatch.
const programs = "/opt/concourse-ci-machine"

// stateGone takes away what the charm keeps of itself. Files of others that are
// still to be put back lie there, too: where that fails the hook does, and Juju
// runs it again.
type stateGone struct{ why string }

// Diff implements plan.Resource.
func (s stateGone) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	p, err := resource.Absent{Path: model.StateDir, Why: s.why, Tree: true}.Diff(ctx, h)
	for i, step := range p {
		p[i].Do = func(ctx context.Context) error {
			if err := amd.ToolkitKept().PutBack(ctx, h); err != nil {
				return err
			}
			return step.Do(ctx)
		}
	}
	return p, err
}
