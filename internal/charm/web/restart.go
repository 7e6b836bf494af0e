package web

import (
	"context"
	"net/url"
	"slices"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/postgres"
)

// A web that starts takes up running builds within seconds. A build errors if its worker is
// not connected again by then: "no workers satisfying", or "id task: already exists". So no
// web takes up builds from before a restart until the workers are back.

// backTime is how long a restart waits for the workers. A worker that lost its web connects
// every 5 s.
const backTime = 30 * time.Second

// Restart restarts the web and returns after its workers have registered again, or after
// backTime. It also returns if the web does not start. peer is the web's address for other
// webs. Workers at other webs are not waited for.
func Restart(ctx context.Context, h host.Host, api *concourse.API, w Web, peer string) error {
	return postgres.HoldTracker(ctx, w.Repair, func(ctx context.Context) error {
		before, _ := registrations(ctx, api, peer) // a web that does not answer has no workers to wait for
		if _, err := h.Run(ctx, resource.Systemctl("restart", concourse.WebUnit)); err != nil || len(before) == 0 {
			return err
		}
		if !awaitWeb(ctx, h.Clock, w.LocalURL) {
			return nil // no worker comes back to a web that does not start, and the status shows the reason
		}
		for waited := time.Duration(0); waited < backTime && ctx.Err() == nil; waited += role.SettlePoll {
			now, err := registrations(ctx, api, peer)
			if err == nil && !slices.ContainsFunc(now, func(r registration) bool { return slices.Contains(before, r) }) {
				return nil
			}
			h.Sleep(role.SettlePoll)
		}
		return nil
	})
}

// registration identifies one registration of a running worker. Its address at the web has
// a new port after each registration.
type registration struct{ name, address string }

// registrations returns the registrations of the running workers at the web with that
// address.
func registrations(ctx context.Context, api *concourse.API, peer string) (all []registration, err error) {
	workers, err := api.Workers(ctx)
	for _, w := range workers {
		u, err := url.Parse("tcp://" + w.Address)
		if err == nil && u.Hostname() == peer && w.State == "running" {
			all = append(all, registration{w.Name, w.Address})
		}
	}
	return all, err
}
