package concourse

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// HoldBuilds keeps all webs on the database from starting builds of jobs, or lets them
// again: their component "scheduler" is paused, which they keep over a restart. Builds
// that run go on. A one-off build (fly execute) starts all the same.
func (a *API) HoldBuilds(ctx context.Context, hold bool) error {
	what, verb := "hold builds", "pause"
	if !hold {
		what, verb = "let builds start again", "unpause"
	}
	return a.call(ctx, what, http.MethodPut, "/api/v1/components/scheduler/"+verb, nil, nil)
}

// RunningBuilds counts the builds that have begun and not ended, checks aside, among the
// newest 500.
func (a *API) RunningBuilds(ctx context.Context) (n int, err error) {
	var builds []struct {
		Status string `json:"status"`
	}
	err = a.call(ctx, "list the builds", http.MethodGet, "/api/v1/builds?limit=500", nil, &builds)
	for _, b := range builds {
		if b.Status == "started" {
			n++
		}
	}
	return n, err
}

// WebVersion asks the web at url for its version, with a deadline of 5 seconds; "" is
// that it does not answer as a web.
func WebVersion(ctx context.Context, url string) string {
	_, body, err := ask(ctx, strings.TrimSuffix(url, "/")+"/api/v1/info")
	var info struct{ Version string }
	if err != nil || json.Unmarshal(body, &info) != nil {
		return ""
	}
	return info.Version
}
