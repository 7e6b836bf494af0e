package charm

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/engines"
)

// desireRemoval returns the state of a unit that is being removed. The hook stop ends its
// services after tasks had their time. The hook remove deletes the files of both roles.
// Releases stay, because other units may share them. They contain no secret.
func desireRemoval(o role.Observed) role.Desired {
	why := o.Facts.Commands().WhyRemoved(o.Event)
	d := role.Desired{Remove: true, Resources: slices.Concat(
		worker.Stop(o, why, role.RunningTasks, o.Config.Worker.DrainTimeout),
		[]plan.Resource{worker.NoTaskNetwork{Why: why}}, web.Stop(o, why), role.StopPebble(o, why))}
	if o.Event != "remove" {
		return d
	}
	d.Resources = slices.Concat(d.Resources, worker.RemoveAll(o, why), web.RemoveAll(why), role.RemovePebble(why),
		role.DesireTrust(o.Trust, nil), []plan.Resource{
			resource.Absent{Path: release.UnitRecord(o.Facts.Unit), Why: why},
			resource.Absent{Path: programs, Why: why, Tree: true},
			noCommandLink{o.CharmDir, why},
			// StateDir has the records of all other files, so it is removed near the end.
			noState{why},
			resource.Absent{Path: versionFile, Why: why},
			resource.NoStamps{Why: why},
		})
	return d
}

// programs is the charm's own folder with the link to the release, the wrapper and dispatch.
const programs = "/opt/concourse-ci-machine"

// noState removes the state, except what outlives the unit. Files of other packages may still
// be stored there. If they cannot be restored, the hook fails and Juju runs it again.
type noState struct{ why string }

// outlive has the records of engines that a person configured, because only they have the
// previous settings, and the state of a machine without Juju.
var outlive = []string{engines.Records, model.MachineFile}

// Diff implements plan.Resource.
func (s noState) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if all, err := removable(h.Root); err != nil || len(all) == 0 {
		return nil, err
	}
	return plan.Plan{{Op: "remove " + wellknown.StateDir, Why: s.why, Do: func(ctx context.Context) error {
		if err := amd.ToolkitKept().Restore(ctx, h); err != nil {
			return err
		}
		all, err := removable(h.Root)
		for _, one := range all {
			err = errors.Join(err, removeTree(ctx, h, one))
		}
		return err
	}}}, nil
}

// removable returns the folder of the state, or only parts of it if others outlive the unit.
func removable(r host.Root) (all []string, err error) {
	entries, err := r.ReadDir(wellknown.StateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if p := path.Join(wellknown.StateDir, e.Name()); !slices.Contains(outlive, p) {
			all = append(all, p)
		}
	}
	if len(all) == len(entries) && err == nil {
		all = []string{wellknown.StateDir}
	}
	return all, err
}

func removeTree(ctx context.Context, h host.Host, dir string) error {
	p, err := resource.Absent{Path: dir, Tree: true}.Diff(ctx, h)
	if err == nil {
		_, err = p.Apply(ctx, nil)
	}
	return err
}
