package web

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
)

// A web gives no work to workers of another protocol, and errors a build that wants one.
// So an upgrade over such a border goes in this order: the web starts no more builds of
// jobs, waits for those that run, and switches. The workers follow, and then builds start
// again. The web keeps that in HoldFile, so a hook that is killed anywhere is made good.

// HoldFile holds until when builds are held. It is written before and removed after.
const HoldFile = model.StateDir + "/builds-held"

// HoldKey holds the same in the peers' bag of the application: a unit that leads later lets
// builds start again, if the one that held them can't.
const HoldKey = "builds-held"

const (
	comeTime = 15 * time.Minute // in which workers get the release and restart
	holdPoll = 2 * time.Second
)

// drainTime returns how long running builds get: the longest time that a worker gives its
// tasks.
func drainTime(workers map[string]model.Worker) (longest time.Duration) {
	for _, w := range workers {
		longest = max(longest, w.Drain)
	}
	return longest
}

// holdBefore holds builds before a web becomes one of another protocol.
func holdBefore(o Observed) plan.Resource {
	fits := o.Release.Version != "" && release.Fits(o.Installed, o.Release.Version)
	if fits {
		return role.Series(nil)
	}
	if !o.Units[concourse.WebUnit].Running() {
		if o.HeldUntil.IsZero() {
			return role.Series(nil)
		}
		// The action run-migrations held builds. The time of the workers begins now.
		return holdFile(o.Now.Add(2*drainTime(o.Facts.Web.Workers) + comeTime))
	}
	why := "workers of " + o.Installed + " get none from a web of " + o.Release.Version
	if o.Release.Version == "" { // an attached release is not unpacked yet
		why = "workers of " + o.Installed + " may get none from the web that comes"
	}
	return role.Tolerated("let running builds end", why, func(ctx context.Context, h host.Host) error {
		if release.Fits(o.Installed, release.VersionOf(h.Root, o.ReleaseID)) {
			return nil
		}
		return Hold(ctx, h, apiOf(o), o.Facts.Web.Workers)
	})
}

// Hold holds builds and waits for those that run, up to the longest worker-drain-timeout.
func Hold(ctx context.Context, h host.Host, api *concourse.API, workers map[string]model.Worker) error {
	limit := drainTime(workers)
	f := holdFile(h.Now().Add(2*limit + comeTime))
	if err := h.WriteFile(f.Path, f.Data, f.Mode); err != nil {
		return err
	}
	if err := api.HoldBuilds(ctx, true); err != nil {
		return err
	}
	for waited := time.Duration(0); ; waited += holdPoll {
		n, err := api.RunningBuilds(ctx)
		switch {
		case err != nil || n == 0:
			return err
		case waited >= limit:
			return fmt.Errorf("%d running builds are errored: they did not end within %s, the longest worker-drain-timeout",
				n, limit)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		h.Sleep(holdPoll)
	}
}

// Release lets builds start that Hold held, once the web at url answers.
func Release(ctx context.Context, h host.Host, api *concourse.API, url string) error {
	awaitWeb(ctx, h.Clock, url)
	if err := api.HoldBuilds(ctx, false); err != nil {
		return err
	}
	return h.Remove(HoldFile)
}

// holdFile returns HoldFile as it is while builds are held.
func holdFile(until time.Time) resource.File {
	return resource.File{Path: HoldFile, Data: []byte(until.UTC().Format(time.RFC3339) + "\n"), Mode: 0o600}
}

// heldUntil returns until when builds are held, the zero time if they are not. A time that
// can't be read has passed.
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

// desireHold lets builds start again once the workers have followed the web, or their
// time is over.
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
		text := fmt.Sprintf("workers that do not run %s yet get no work from it: %s", o.Installed, firstOf(behind))
		if o.Now.Before(o.HeldUntil) {
			text += "; builds are held until they follow, at the latest until " + o.HeldUntil.UTC().Format("15:04 UTC")
			d.Causes = append(d.Causes, status.Cause{Kind: status.Waiting, Text: text})
			d.Resources = append(d.Resources, holdFile(o.HeldUntil))
			return
		}
		why = "the workers had their time to follow"
		d.Causes = append(d.Causes, status.Cause{Kind: status.Active, Text: text})
	}
	d.Resources = append(d.Resources, role.Tolerated("let builds start again", why,
		func(ctx context.Context, h host.Host) error { return letStart(ctx, h, o) }))
}

// letStart lets builds start, unless another web on the database would give workers none.
func letStart(ctx context.Context, h host.Host, o Observed) error {
	for _, peer := range o.Facts.Web.Peers {
		url := "http://" + net.JoinHostPort(peer, strconv.Itoa(o.Config.WebPort))
		if v := concourse.WebVersion(ctx, url); !release.Fits(o.Installed, v) && h.Now().Before(o.HeldUntil) {
			return fmt.Errorf("the web at %s still runs %s", peer, v)
		}
	}
	return Release(ctx, h, apiOf(o), localURL(o))
}

// firstOf names the first units of many.
func firstOf(units []string) string {
	const most = 5
	if len(units) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(units[:most], ", "), len(units)-most)
	}
	return strings.Join(units, ", ")
}

// apiOf returns the API of this unit's own web.
func apiOf(o Observed) *concourse.API {
	return concourse.NewAPI(localURL(o), o.Config.AdminUser, secretContent(o)[model.AdminPassword], "")
}
