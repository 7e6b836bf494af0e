package charm

import (
	"context"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// run distinguishes the runs of the pipeline in one hook.
type run string

// A hook has at most two runs. The last one never causes another.
const (
	firstRun run = "first"
	lastRun  run = "last"
)

// rerunReason names why a hook has a second run, "" for none.
type rerunReason string

const (
	releaseFailed      rerunReason = "the new release ended, so the previous one is used again"
	driverIsNew        rerunReason = "the GPUs of the new driver are not known yet"
	descriptionsAreNew rerunReason = "the new descriptions of GPUs are not used yet"
	ownKeyIsNew        rerunReason = "the web does not have the key of this unit's worker yet"
	limitIsUnknown     rerunReason = "the limits of the new release's worker are not known yet"
	flagsAreUnchecked  rerunReason = "the new release has not checked extra-web-flags yet"
)

// rerun returns the reason for a second run of the pipeline. upgrades reports that this run
// installed another release.
func (c *Charm) rerun(ctx context.Context, want Desired, upgrades bool, services Services) (rerunReason, error) {
	if upgrades {
		failed, err := c.watchUpgrade(ctx, want)
		if failed {
			return releaseFailed, err
		}
		if err != nil {
			return "", err
		}
	}
	switch {
	case services == Restarted && driverInstalled(want.Worker):
		return driverIsNew, nil
	case want.Worker.GeneratedSpec(c.Host.Root):
		return descriptionsAreNew, nil
	case c.ownKeyUnknown(want):
		return ownKeyIsNew, nil
	case c.limitUnknown(want.Worker):
		return limitIsUnknown, nil
	case want.Web.UncheckedFlags:
		return flagsAreUnchecked, nil
	}
	return "", nil
}

// ownKeyUnknown reports whether this run made the key of a worker whose web is on the same
// unit. The next run gives it to the web.
func (c *Charm) ownKeyUnknown(want Desired) bool {
	if !want.Web.Up || !want.Worker.Up {
		return false
	}
	key, err := c.Host.ReadText(concourse.WorkerKeyPublic)
	return err == nil && !slices.Contains(want.Web.Accepted, strings.TrimSpace(key))
}

// limitUnknown reports whether this run installed a release with an uninspected worker.
// The next run finds out which limits it supports.
func (c *Charm) limitUnknown(want worker.Worker) bool {
	_, id, installed := release.Installed(c.Host.Root)
	return want.GPUs.Exclusive && installed && want.LimitRelease != id
}

// driverInstalled reports whether a plan with steps installed a driver that tasks waited
// for. Only the next run can find the GPUs of that driver.
func driverInstalled(w worker.Worker) bool {
	return w.Driver != nil && !w.Driver.HasGPUs && w.Driver.Decision.Driver
}
