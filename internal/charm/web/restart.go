package web

import (
	"context"
	"maps"
	"net"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/postgres"
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
		before, _ := registrations(ctx, api) // a web that does not answer has no workers to wait for
		maps.DeleteFunc(before, func(_, address string) bool {
			host, _, err := net.SplitHostPort(address)
			return err != nil || host != peer
		})
		if _, err := h.Run(ctx, resource.Systemctl("restart", concourse.WebUnit)); err != nil || len(before) == 0 {
			return err
		}
		if !awaitWeb(ctx, h.Clock, w.LocalURL) {
			return nil // no worker comes back to a web that does not start, and the status shows the reason
		}
		for waited := time.Duration(0); waited < backTime && ctx.Err() == nil; waited += role.SettlePoll {
			if now, err := registrations(ctx, api); err == nil && renewed(before, now) {
				return nil
			}
			h.Sleep(role.SettlePoll)
		}
		return nil
	})
}

// registrations returns the addresses of the running workers by name. An address is one of
// the web with the registration, and has a new port after each registration.
func registrations(ctx context.Context, api *concourse.API) (map[string]string, error) {
	workers, err := api.Workers(ctx)
	running := map[string]string{}
	for _, w := range workers {
		if w.State == "running" {
			running[w.Name] = w.Address
		}
	}
	return running, err
}

// renewed reports whether each worker has registered again, at any web. A worker that only
// lost its registration is stalled after a while, and gets no builds.
func renewed(before, now map[string]string) bool {
	for name, address := range before {
		if again, is := now[name]; !is || again == address {
			return false
		}
	}
	return true
}
