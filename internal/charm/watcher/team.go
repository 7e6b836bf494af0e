package watcher

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/charm/model"
)

// containerMetric of the web's exporter has the team of each task's container, for five
// minutes after its end. A worker cannot see the team otherwise.
const containerMetric = "concourse_container_info"

// maxWebMetrics bounds the web's answer. 5,000 containers have about 2 MiB.
const maxWebMetrics = 16 << 20

// fetchTeam returns a digest of the team of a task that crashed. It returns "" if the web
// has no exporter or does not list the container. The answer is not authenticated: a false
// one can at worst withhold one GPU for some hours.
func (u *Unit) fetchTeam(ctx context.Context, container string) string {
	leases, err := u.readLeases()
	if err != nil || leases == nil || !wellknown.IsHandle(container) {
		return ""
	}
	team, err := u.requestTeam(ctx, container)
	if err != nil || team == "" {
		return ""
	}
	digest, err := leases.Digest("team", team)
	if err != nil {
		return ""
	}
	return digest
}

func (u *Unit) requestTeam(ctx context.Context, container string) (string, error) {
	if u.WebMetricsURL != "" {
		return teamFrom(ctx, u.WebMetricsURL, container)
	}
	facts, err := model.Load(u.Host.Root)
	if err != nil || !u.Host.Real() {
		return "", errors.Join(errors.New("no web of this machine's"), err)
	}
	tsa, _ := model.ChooseTSA(facts)
	for _, address := range tsa.Hosts {
		var web, team string
		if web, _, err = net.SplitHostPort(address); err != nil {
			return "", err
		}
		web = "http://" + net.JoinHostPort(web, strconv.Itoa(wellknown.JobsPort)) + "/metrics"
		if team, err = teamFrom(ctx, web, container); err == nil {
			return team, nil
		}
	}
	return "", err
}

// teamFrom reads the team of a container from the metrics of one web.
func teamFrom(ctx context.Context, web, container string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, web, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // without a proxy
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the web answers %d", resp.StatusCode)
	}
	return teamOf(io.LimitReader(resp.Body, maxWebMetrics), container), nil
}

// teamOf returns the team of a container in the text of metrics, and "" if it is missing.
// The charm's exporter writes each family's labels on one line.
func teamOf(metrics io.Reader, container string) string {
	for s := bufio.NewScanner(metrics); s.Scan(); {
		if rest, found := strings.CutPrefix(s.Text(), containerMetric+"{"); found {
			if labels := labelsOf(rest); labels["container"] == container {
				return labels["team"]
			}
		}
	}
	return ""
}

// labelsOf parses a="1",b="2"} as far as it has the form.
func labelsOf(text string) map[string]string {
	labels := map[string]string{}
	for {
		name, rest, found := strings.Cut(text, "=")
		quoted, err := strconv.QuotedPrefix(rest)
		if !found || err != nil {
			return labels
		}
		if labels[name], err = strconv.Unquote(quoted); err != nil {
			return nil
		}
		if text, found = strings.CutPrefix(rest[len(quoted):], ","); !found {
			return labels
		}
	}
}
