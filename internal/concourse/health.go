package concourse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/sanitize"
)

// HealthState is how a service's own health endpoint looks.
type HealthState string

// The states. Healthy says nothing about registration.
const (
	Healthy   HealthState = "healthy"
	Unhealthy HealthState = "unhealthy" // it answers that a part of it does not work
	Down      HealthState = "down"      // it does not answer
)

// Health is a state and, unless it is Healthy, the reason in one line.
type Health struct {
	State HealthState
	Why   string
}

// CheckHealth asks once, with a deadline of 5 seconds.
func CheckHealth(ctx context.Context, url string) Health {
	status, body, err := ask(ctx, url)
	if err != nil {
		return Health{Down, err.Error()}
	}
	return parseHealth(status, body)
}

// ask gets an answer of this machine: no proxy, no redirection, 64 KiB at
// most. Its error is one line.
func ask(ctx context.Context, url string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, errors.New(oneLine(err.Error()))
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy: it is this machine
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return 0, nil, errors.New("no answer in 5 s")
	}
	if err != nil {
		return 0, nil, errors.New(oneLine(err.Error()))
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(io.LimitReader(resp.Body, 64<<10)); err != nil {
		return 0, nil, errors.New(oneLine(err.Error()))
	}
	return resp.StatusCode, body, nil
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
	return Health{Unhealthy, fmt.Sprintf("the health check says %d", status)}
}

// maxWhy bounds a text from elsewhere, in characters.
const maxWhy = 200

// oneLine makes a text from elsewhere fit for a status.
func oneLine(s string) string {
	return sanitize.Line(strings.Join(strings.Fields(s), " "), maxWhy)
}
