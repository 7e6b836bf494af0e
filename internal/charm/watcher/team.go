package watcher

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/httpclient"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
)

// containerMetric of the web's exporter has the team of each task's container, for five
// minutes after its end. A worker cannot see the team otherwise.
const containerMetric = "concourse_container_info"

// maxWebMetrics bounds the web's answer. 5,000 containers have about 2 MiB.
const maxWebMetrics = 16 << 20

// fetchTeam returns a digest of the team of a task that crashed. It returns "" if the web
// has no exporter or does not list the container. The answer is not authenticated: a false
// one can at worst quarantine one GPU for some hours.
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

// requestTeam returns the team of a container, "" if no web has it. It requests all webs at once:
// one may not answer, and one that has just started lists only the containers of now.
func (u *Unit) requestTeam(ctx context.Context, container string) (string, error) {
	webs, err := u.webMetrics()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		team string
		err  error
	}
	answers := make(chan answer, len(webs))
	for _, web := range webs {
		go func() {
			team, err := teamFrom(ctx, web, container)
			answers <- answer{team, err}
		}()
	}
	for range webs {
		one := <-answers
		if one.team != "" {
			return one.team, nil
		}
		err = errors.Join(err, one.err)
	}
	return "", err
}

// webMetrics returns the URLs of the metrics of the unit's webs.
func (u *Unit) webMetrics() (urls []string, err error) {
	if len(u.WebMetricsURLs) > 0 {
		return u.WebMetricsURLs, nil
	}
	facts, err := model.Load(u.Host.Root)
	if err != nil || !u.Host.Real() {
		return nil, errors.Join(errors.New("no web of this machine's"), err)
	}
	tsa, _ := model.ChooseTSA(facts)
	for _, address := range tsa.Hosts {
		host, _, failed := net.SplitHostPort(address)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		urls = append(urls, "http://"+net.JoinHostPort(host, strconv.Itoa(wellknown.JobsPort))+"/metrics")
	}
	return urls, err
}

// teamFrom reads the team of a container from the metrics of one web.
func teamFrom(ctx context.Context, web, container string) (string, error) {
	code, metrics, err := httpclient.Get(ctx, web, maxWebMetrics)
	switch {
	case err != nil:
		return "", err
	case code != http.StatusOK:
		return "", fmt.Errorf("the web answers %d", code)
	}
	return teamOf(bytes.NewReader(metrics), container), nil
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
