package charm

import (
	"context"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/lease"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/release"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/internal/rocm"
	"concourse-ci-machine/internal/role"
	"concourse-ci-machine/internal/web"
	"concourse-ci-machine/internal/worker"
)

// desireNothing is the unit on its way out. stop ends what runs, after its
// tasks had their time; remove takes away what the charm brought. Releases and
// the work folder stay: they may be shared, and they hold no secret.
func desireNothing(o role.Observed) role.Desired {
	why := "the unit is being removed"
	d := role.Desired{Remove: true}
	d.Resources = append(d.Resources,
		concourse.Drain{State: o.Units[concourse.Unit], Limit: o.Config.DrainTimeout, Why: why, Disrupts: role.RunningTasks},
		resource.Service{Unit: concourse.WebUnit, State: o.Units[concourse.WebUnit], Why: why},
		resource.Service{Unit: role.PebbleUnit, State: o.Units[role.PebbleUnit], Why: why},
		resource.Service{Unit: worker.RefreshUnit, State: o.Units[worker.RefreshUnit], Why: why})
	if o.Event != "remove" {
		return d
	}
	files := []string{concourse.UnitFile, "/etc/systemd/system/" + role.PebbleUnit, oci.DefaultConfig, release.UnitRecord(o.Facts.Unit),
		concourse.WebUnitFile, role.JobsCredentials, worker.LeaseReport, role.UsageReport}
	for _, shared := range []bool{false, true} {
		paths := concourse.WebFiles(shared)
		files = append(files, paths.Env())
		d.Resources = append(d.Resources, resource.Absent{Path: paths.KeyDir(), Why: why, Tree: true})
	}
	// The note of what was brought is in StateDir, which goes last.
	d.Resources = append(d.Resources, worker.LeaveGPUs(o, why)...)
	for _, path := range files {
		d.Resources = append(d.Resources, resource.Absent{Path: path, Why: why})
	}
	for _, path := range []string{concourse.ConfigDir, "/opt/concourse-ci-machine", lease.DefaultDir} {
		d.Resources = append(d.Resources, resource.Absent{Path: path, Why: why, Tree: true})
	}
	d.Resources = append(d.Resources, stateGone{why})
	// Of the folder in /run only the lock stays: this run holds it.
	for _, name := range []string{worker.ReloadWorker, worker.RestartWorker, role.ReloadPebble, role.RestartPebble, worker.ReloadRefresh, web.ReloadWebUnit, web.RestartWeb, web.ReloadWeb, web.RepairDatabase, web.ForgetWorker} {
		d.Resources = append(d.Resources, resource.Absent{Path: resource.StampDir + "/" + name + ".stamp", Why: why})
	}
	d.Resources = append(d.Resources, resource.Absent{Path: versionFile, Why: why})
	return d
}

// stateGone takes away what the charm keeps of itself. Files of others that are
// still to be put back lie there, too: where that fails the hook does, and Juju
// runs it again.
type stateGone struct{ why string }

// Diff implements plan.Resource.
func (s stateGone) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	p, err := resource.Absent{Path: model.StateDir, Why: s.why, Tree: true}.Diff(ctx, h)
	for i, step := range p {
		p[i].Do = func(ctx context.Context) error {
			if err := rocm.ToolkitKept().PutBack(ctx, h); err != nil {
				return err
			}
			return step.Do(ctx)
		}
	}
	return p, err
}
