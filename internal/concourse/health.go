package concourse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/httpclient"
	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
)

// HealthState names the state of a service according to its health endpoint.
type HealthState string

// The states. Healthy does not imply that the worker is registered.
const (
	Healthy   HealthState = "healthy"
	Unhealthy HealthState = "unhealthy" // the endpoint reports that a part does not work
	Down      HealthState = "down"      // the endpoint does not answer
)

// Health has a state and, unless the state is Healthy, the reason in one line.
type Health struct {
	State HealthState
	Why   string
}

// CheckHealth sends one request, with a deadline of 5 seconds.
func CheckHealth(ctx context.Context, url string) Health {
	status, body, err := ask(ctx, url)
	if err != nil {
		return Health{Down, err.Error()}
	}
	return parseHealth(status, body)
}

// ask sends a request to this machine, without a proxy or redirections, and reads at most
// 64 KiB. Its error is one line.
func ask(ctx context.Context, url string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	status, body, err = httpclient.Get(ctx, url, 64<<10)
	switch {
	case status == 0 && errors.Is(err, context.DeadlineExceeded):
		err = errors.New("no answer in 5 s")
	case err != nil:
		err = errors.New(oneLine(err.Error()))
	}
	return status, body, err
}

// parseHealth reads the answer: an object of parts with "healthy" and perhaps
// "reason" or "error".
func parseHealth(status int, body []byte) Health {
	if status == http.StatusOK {
		return Health{State: Healthy}
	}
	var parts map[string]map[string]any
	if json.Unmarshal(body, &parts) == nil {
		for _, name := range slices.Sorted(maps.Keys(parts)) {
			if ok, said := parts[name]["healthy"].(bool); said && !ok {
				why := name + " is unhealthy"
				for _, key := range []string{"reason", "error", "message"} {
					if text, ok := parts[name][key].(string); ok && text != "" {
						why += ": " + text
						break
					}
				}
				return Health{Unhealthy, oneLine(why)}
			}
		}
	}
	return Health{Unhealthy, fmt.Sprintf("the health check returned %d", status)}
}

// maxWhy bounds a reason from outside, in characters.
const maxWhy = 200

// oneLine makes a text from outside fit for a status.
func oneLine(s string) string { return sanitize.Line(strings.Join(strings.Fields(s), " "), maxWhy) }

// CheckWeb checks once whether a web serves its API (/api/v1/info, which needs no login),
// with a deadline of 5 seconds. The web needs its database for this only while it starts.
// url is the web's HTTP port on this machine, which also answers if TLS is set up.
func CheckWeb(ctx context.Context, url string) Health {
	status, body, err := ask(ctx, strings.TrimSuffix(url, "/")+"/api/v1/info")
	if err != nil {
		return Health{Down, err.Error()}
	}
	if h := parseHealth(status, body); h.State != Healthy {
		return h
	}
	// Another program may listen there.
	var info struct{ Version string }
	if json.Unmarshal(body, &info) != nil || info.Version == "" {
		return Health{Unhealthy, "what answers at " + url + " is not Concourse"}
	}
	return Health{State: Healthy}
}

// startError begins the line of a web that ends because it cannot start.
const startError = "error: "

// StartError returns the last error of a web that does not start, "" if its journal has none.
// systemd starts the web again within seconds, so an error of a minute ago has been fixed.
func StartError(ctx context.Context, r host.Runner) string {
	out, err := r.Run(ctx, host.Command{ReadOnly: true, Deadline: 30 * time.Second,
		Argv: []string{"journalctl", "--unit", WebUnit, "--output", "cat", "--no-pager", "--reverse", "--lines", "1",
			"--since", "-1min", "--grep", "^" + startError}})
	line, is := strings.CutPrefix(string(out), startError)
	if err != nil || !is { // err also means that no line matches
		return ""
	}
	return oneLine(line)
}

// Registration has a state and, if it is Lost, the worker's reason.
type Registration = beacon.Registration

// The states.
const (
	Registered = beacon.Registered
	Lost       = beacon.Lost
	Unknown    = beacon.Unknown
)

// Levels of the worker's log. Only info and debug have its registrations.
const (
	LogsRegistrations = "all lines"
	LogsFailures      = "only failures to register"
)

// AttemptTime bounds the time between two attempts to register: 10 s for each web, and a
// pause of 5 s. Without a failure for so long, a worker is registered.
const AttemptTime = time.Minute

// CheckRegistration searches the journal, which has one of the levels. Only lines of the
// given invocation (resource.UnitState) are valid, because a restart outdates earlier lines.
// Without an invocation all lines are valid.
func CheckRegistration(ctx context.Context, r host.Runner, invocation, level string) (Registration, error) {
	// With --lines alone the journalctl of Ubuntu 22.04 greps in the last line only.
	argv := []string{"journalctl", "--unit", Unit, "--output", "cat", "--no-pager", "--reverse", "--lines", "1",
		"--grep", `worker\.beacon-runner\.(beacon\.registered|failed)`}
	if level == LogsFailures {
		argv = append(argv, "--since", fmt.Sprintf("-%.0fs", AttemptTime.Seconds()))
	}
	if invocation != "" {
		argv = append(argv, "_SYSTEMD_INVOCATION_ID="+invocation)
	}
	out, err := r.Run(ctx, host.Command{ReadOnly: true, Deadline: 30 * time.Second, Argv: argv})
	if cmd, ok := errors.AsType[*host.CommandError](err); ok && cmd.Code == 1 && cmd.Stderr == "" {
		return Registration{State: Unknown}, nil // journalctl reports in this way that no line matched
	}
	if err != nil {
		return Registration{State: Unknown}, fmt.Errorf("cannot read the registration: %w", err)
	}
	return beacon.ParseRegistration(out), nil
}
