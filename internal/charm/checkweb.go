package charm

import (
	"context"
	"fmt"
	"time"

	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/charm/web"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/postgres"
)

// CheckWeb asks the web itself; systemd only knows that a process runs.
func (c *Charm) CheckWeb(ctx context.Context, want web.Web, changed bool) *status.Cause {
	h := concourse.CheckWeb(ctx, want.LocalURL)
	for waited := time.Duration(0); h.State != concourse.Healthy && changed && waited < role.WebSettleTime; waited += role.SettlePoll {
		c.Host.Sleep(role.SettlePoll)
		h = concourse.CheckWeb(ctx, want.LocalURL)
	}
	if h.State == concourse.Healthy {
		return nil
	}
	why := h.Why
	if err := DatabaseWorks(ctx, want); err != nil {
		why = lastLine(err) // a web without its database ends, and all that shows is a closed port
	}
	return &status.Cause{Kind: status.Waiting, Text: fmt.Sprintf("Web not ready: %s; see journalctl --unit concourse-server", why)}
}

// DatabaseWorks logs in as the web and looks at its rights.
func DatabaseWorks(ctx context.Context, want web.Web) error {
	if err := postgres.Ping(ctx, want.Repair); err != nil {
		return err
	}
	return postgres.Rights(ctx, want.Repair)
}

// CheckPebble says what is wrong with a service under Pebble, "" for nothing.
func (c *Charm) CheckPebble(ctx context.Context, service, url string) string {
	state, err := resource.PebbleServices(ctx, c.Host.Root, role.PebbleSocket)
	switch {
	case err != nil:
		return err.Error()
	case state.Services[service] != "active":
		return fmt.Sprintf("service %s is %s; see sudo PEBBLE=%s %s logs", service, state.Services[service], role.PebbleDir, role.PebbleBin)
	case state.Checks[service] == "down":
		return fmt.Sprintf("%s does not answer", url)
	}
	return ""
}
