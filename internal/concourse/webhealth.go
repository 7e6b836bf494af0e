package concourse

import (
	"context"
	"encoding/json"
	"strings"
)

// CheckWeb asks a web once whether it serves its API (/api/v1/info, for which
// nobody has to log in), with a deadline of 5 seconds. It needs its database
// for that only while it starts. url is the web's own HTTP port on this
// machine, which answers with TLS too.
func CheckWeb(ctx context.Context, url string) Health {
	status, body, err := ask(ctx, strings.TrimSuffix(url, "/")+"/api/v1/info")
	if err != nil {
		return Health{Down, err.Error()}
	}
	if h := parseHealth(status, body); h.State != Healthy {
		return h
	}
	// Something else may listen there.
	var info struct{ Version string }
	if json.Unmarshal(body, &info) != nil || info.Version == "" {
		return Health{Unhealthy, "what answers at " + url + " is not Concourse"}
	}
	return Health{State: Healthy}
}
