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

	"github.com/prometheus/common/expfmt"
	promodel "github.com/prometheus/common/model"

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
	web := u.WebMetricsURL
	if web == "" {
		facts, err := model.Load(u.Host.Root)
		if err != nil || !u.Host.Real() {
			return "", errors.Join(errors.New("no web of this machine's"), err)
		}
		tsa, _ := model.ChooseTSA(facts)
		host, _, err := net.SplitHostPort(tsa.Host)
		if err != nil {
			return "", err
		}
		web = "http://" + net.JoinHostPort(host, strconv.Itoa(wellknown.JobsPort)) + "/metrics"
	}
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
	return teamOf(io.LimitReader(resp.Body, maxWebMetrics), container)
}

// teamOf returns the team of a container in the text of metrics, and "" if it is missing.
func teamOf(metrics io.Reader, container string) (string, error) {
	label := `container="` + container + `"`
	for s := bufio.NewScanner(metrics); s.Scan(); {
		if line := s.Text(); strings.HasPrefix(line, containerMetric+"{") && strings.Contains(line, label) {
			parser := expfmt.NewTextParser(promodel.UTF8Validation)
			families, err := parser.TextToMetricFamilies(strings.NewReader(line + "\n"))
			if err != nil {
				return "", err
			}
			labels := map[string]string{}
			for _, m := range families[containerMetric].GetMetric() {
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
			}
			if labels["container"] == container {
				return labels["team"], nil
			}
		}
	}
	return "", nil
}
