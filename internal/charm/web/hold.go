package web

import (
	"context"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// A web gives no work to workers of another protocol, and a build that needs such a worker
// errors. So an upgrade to another protocol has a fixed order. The web starts no more builds
// of jobs, waits for running builds, and switches. The workers follow, and then builds start
// again. HoldFile has this state, so that the next hook can finish a killed one.

// HoldFile has the time until which builds are held. It is written before the hold begins
// and removed after it ends.
const HoldFile = wellknown.StateDir + "/builds-held"

// HoldKey has the same time in the application's databag of the peers. If the unit that
// holds builds is lost, a later leader lets builds start again.
const HoldKey = "builds-held"

const (
	followTime = 15 * time.Minute // for workers to install the release and restart
	holdPoll   = 2 * time.Second
)

// drainTime returns how long running builds get: the longest time that a worker gives its
// tasks.
func drainTime(workers map[string]model.Worker) (longest time.Duration) {
	for _, w := range workers {
		longest = max(longest, w.Drain)
	}
	return longest
}

// holdBeforeSwitch holds builds before the web switches to a release with another protocol.
func holdBeforeSwitch(o Observed) plan.Resource {
	fits := o.Release.Version != "" && release.Fits(o.Installed, o.Release.Version)
	if fits {
		return role.Series(nil)
	}
	if !o.Units[concourse.WebUnit].Running() {
		if o.HeldUntil.IsZero() {
			return role.Series(nil)
		}
		// The action run-migrations held builds. The time of the workers begins now.
		return holdFile(o.Now.Add(2*drainTime(o.Facts.Web.Workers) + followTime))
	}
	why := "workers of " + o.Installed + " get none from a web of " + o.Release.Version
	if o.Release.Version == "" { // an attached release is not unpacked yet
		why = "workers of " + o.Installed + " may get none from the web that comes"
	}
	return role.Tolerated("let running builds end", why, func(ctx context.Context, h host.Host) error {
		if release.Fits(o.Installed, release.VersionOf(h.Root, o.ReleaseID)) {
			return nil
		}
		return HoldBuilds(ctx, h, apiOf(o), o.Facts.Web.Workers)
	})
}

// HoldBuilds holds builds and waits for running ones, at most for the longest
// worker-drain-timeout.
func HoldBuilds(ctx context.Context, h host.Host, api *concourse.API, workers map[string]model.Worker) error {
	limit := drainTime(workers)
	f := holdFile(h.Now().Add(2*limit + followTime))
	if err := h.WriteFile(f.Path, f.Data, f.Mode); err != nil {
		return err
	}
	if err := api.HoldBuilds(ctx); err != nil {
		return err
	}
	for waited := time.Duration(0); ; waited += holdPoll {
		n, err := api.RunningBuilds(ctx)
		switch {
		case err != nil || n == 0:
			return err
		case waited >= limit:
			return fmt.Errorf("%d running builds are errored: they did not end within %s, the longest "+
				"worker-drain-timeout", n, limit)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		h.Sleep(holdPoll)
	}
}

// ResumeBuilds ends HoldBuilds after the web at url answers.
func ResumeBuilds(ctx context.Context, h host.Host, api *concourse.API, url string) error {
	awaitWeb(ctx, h.Clock, url)
	if err := api.ResumeBuilds(ctx); err != nil {
		return err
	}
	return h.Remove(HoldFile)
}

// holdFile returns HoldFile with a time.
func holdFile(until time.Time) resource.File {
	return resource.File{Path: HoldFile, Data: []byte(until.UTC().Format(time.RFC3339) + "\n"), Mode: 0o600}
}

// heldUntil returns the time until which builds are held, zero if they are not held. An
// unreadable time has passed.
func heldUntil(root host.Root, f model.Facts) (time.Time, error) {
	text, err := role.ReadOptional(root, HoldFile)
	if err != nil {
		return time.Time{}, err
	}
	if text == "" && f.Leader && f.Peer != nil {
		text = f.Peer.Remote[HoldKey]
	}
	if text == "" {
		return time.Time{}, nil
	}
	until, err := time.Parse(time.RFC3339, strings.TrimSpace(text))
	if err != nil {
		return time.Unix(0, 0), nil
	}
	return until, nil
}

// desireHold lets builds start again after the workers have followed the web, or after
// their time is over.
func desireHold(d *Desired, o Observed) {
	stays := o.InstalledID == o.ReleaseID || o.Release.Version != "" && release.Fits(o.Installed, o.Release.Version)
	if o.HeldUntil.IsZero() || !stays {
		return
	}
	var behind []string
	for _, w := range o.Facts.Web.Workers {
		if w.Key != "" && !release.Fits(o.Installed, w.Version) {
			behind = append(behind, w.Unit)
		}
	}
	why := "the workers run its release"
	if len(behind) > 0 {
		slices.Sort(behind)
		c := status.Warn("workers that do not run %s yet get no work: %d", o.Installed, len(behind)).
			Explain("%s", strings.Join(behind, ", "))
		if o.Now.Before(o.HeldUntil) {
			d.Causes = append(d.Causes, status.Wait("builds are held until %s for workers that do not run %s: %d",
				o.HeldUntil.UTC().Format("15:04 UTC"), o.Installed, len(behind)).Explain("%s", c.Detail))
			d.Resources = append(d.Resources, holdFile(o.HeldUntil))
			return
		}
		why = "the workers had their time to follow"
		d.Causes = append(d.Causes, c)
	}
	d.Resources = append(d.Resources, role.Tolerated("let builds start again", why,
		func(ctx context.Context, h host.Host) error { return resumeWithPeers(ctx, h, o) }))
}

// resumeWithPeers lets builds start. It fails if another web on the database still has the
// previous protocol, because that web would give this web's workers no work.
func resumeWithPeers(ctx context.Context, h host.Host, o Observed) error {
	for _, peer := range o.Facts.Web.Peers {
		url := "http://" + net.JoinHostPort(peer, strconv.Itoa(o.Config.Web.Port))
		if v := concourse.WebVersion(ctx, url); !release.Fits(o.Installed, v) && h.Now().Before(o.HeldUntil) {
			return fmt.Errorf("the web at %s still runs %s", peer, v)
		}
	}
	return ResumeBuilds(ctx, h, apiOf(o), localURL(o))
}

// apiOf returns the API of this unit's own web.
func apiOf(o Observed) *concourse.API {
	return concourse.NewAPI(localURL(o), o.Config.Web.InitialAdminUsername, secretContent(o)[model.AdminPassword])
}

// refuseDowngrade refuses a release that does not support the schema of the database.
// Concourse would start with it and fail at every query.
func refuseDowngrade(o Observed, db concourse.WebDatabase, env map[string]string) plan.Resource {
	return role.StepOf("compare the database with the release",
		"a release that is older than the database can't use it",
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
				return &release.DowngradeError{From: from, To: release.VersionOf(h.Root, o.ReleaseID),
					Schema: supported}
			}
			return nil
		})
}
