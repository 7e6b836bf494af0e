package charm

import (
	"context"
	"fmt"
	"path"
	"time"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/resource"
)

// upgradeTime is how long a unit that was just started with another release is
// watched before it counts as started: one that can't run ends sooner.
const upgradeTime = 20 * time.Second

// beforeWorkerSwitch lets the tasks of a running worker end before its programs
// are replaced. Those that take longer go on under the new ones. An attached
// release that is not the wanted version ends nothing.
func beforeWorkerSwitch(o WorkerObserved) plan.Resource {
	state := o.Units[concourse.Unit]
	if !state.Running() {
		return nil
	}
	return series{
		step{plan.Step{Op: "look at the version of the release", Why: "before tasks are drained for it"}, func(_ context.Context, h host.Host) error {
			got, err := h.ReadText(path.Join(concourse.ReleasesDir, o.ReleaseID, "VERSION"))
			if _, back := o.Release.Avoided(h.Root); err == nil && !back && o.Release.Version != "" && got != o.Release.Version {
				err = &concourse.VersionError{Path: "the attached release", Want: o.Release.Version, Got: got}
			}
			return err
		}},
		concourse.Retire{State: state, Limit: o.Config.DrainTimeout, Why: "another release of Concourse takes its place"},
	}
}

// series is several resources in the place of one.
type series []plan.Resource

// Diff implements plan.Resource.
func (s series) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	return plan.Diff(ctx, h, s...)
}

// beforeWebSwitch refuses a release that does not know the database as it is:
// Concourse itself would start, and fail at every query.
func beforeWebSwitch(o WebObserved, db concourse.WebDatabase, env map[string]string) plan.Resource {
	return step{plan.Step{Op: "compare the database with the release", Why: "a release that is older than the database can't use it"},
		func(ctx context.Context, h host.Host) error {
			from, _, _ := concourse.InstalledRelease(h.Root)
			current, supported, err := concourse.DatabaseVersions(ctx, h, path.Join(concourse.ReleasesDir, o.ReleaseID), db, env)
			if err == nil && current > supported {
				return &concourse.DowngradeError{From: from, To: o.Release.Version, Schema: supported}
			}
			if err != nil {
				return databaseError{err}
			}
			return nil
		}}
}

// watchUpgrade looks whether the unit stays up with its new release. If not,
// that release is noted as failed, and the one before it is to be used again.
func (c *Charm) watchUpgrade(ctx context.Context, want Desired) (back bool, err error) {
	unit := want.MainUnit()
	if unit == "" {
		return false, nil
	}
	before, _, ok := want.Release.Previous(c.Host.Root)
	version, id, running := concourse.InstalledRelease(c.Host.Root)
	if !ok || !running {
		return false, nil
	}
	for waited := time.Duration(0); waited < upgradeTime; waited += settlePoll {
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
			c.say(ctx, fmt.Sprintf("Going back to Concourse %s: %s ended when it was started", before, version))
			return true, concourse.MarkFailed(c.Host.Root, id, version, why)
		}
		if c.answers200(ctx, want) {
			return false, nil
		}
		c.Sleep(settlePoll)
	}
	return false, nil
}

// MainUnit is what the unit is there for.
func (d Desired) MainUnit() string {
	switch {
	case d.Web:
		return concourse.WebUnit
	case d.Worker:
		return concourse.Unit
	}
	return ""
}

func (c *Charm) answers200(ctx context.Context, want Desired) bool {
	if want.Web {
		return concourse.CheckWeb(ctx, want.LocalURL).State == concourse.Healthy
	}
	return concourse.CheckHealth(ctx, c.healthURL()).State == concourse.Healthy
}

// canGoBack reports whether the release before knows the database as the new
// one left it; a worker has none.
func (c *Charm) canGoBack(ctx context.Context, want Desired) bool {
	if !want.Web {
		return true
	}
	_, id, ok := want.Release.Previous(c.Host.Root)
	if !ok {
		return false
	}
	current, supported, err := concourse.DatabaseVersions(ctx, c.Host, path.Join(concourse.ReleasesDir, id), want.Database, want.Environment)
	return err == nil && current <= supported
}
