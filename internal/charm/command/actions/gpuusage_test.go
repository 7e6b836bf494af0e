package actions

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/charm"
	"concourse-ci-machine/internal/charm/juju"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/testutil/hosttest"
)

// answers maps a text in a query to Prometheus' answer, in the order of the search.
var answers = []struct{ has, result string }{
	{"steps_wait", `{"metric":{"teamName":"main"},"value":[0,"3.4"]}`},
	{"busy_ratio", `{"metric":{"team":"main","pipeline":"rocm"},"value":[0,"20.8"]},{"metric":{"team":"dev","pipeline":"deploy/branch:main,n:1"},"value":[0,"0.9"]}`},
	{"memory_bytes", `{"metric":{"team":"main","pipeline":"rocm"},"value":[0,"62400000000"]}`},
	{"count by", `{"metric":{"team":"main","pipeline":"rocm"},"value":[0,"12"]},{"metric":{"team":"main"},"value":[0,"3"]},{"metric":{"team":"dev","pipeline":"deploy/branch:main,n:1"},"value":[0,"1"]}`},
	{"held_seconds", `{"metric":{"team":"main","pipeline":"rocm"},"value":[0,"34.25"]},{"metric":{"team":"main"},"value":[0,"0.75"]},{"metric":{"team":"dev","pipeline":"deploy/branch:main,n:1"},"value":[0,"1.5"]}`},
}

// usageOf runs the action on a web with these answers of Prometheus.
func usageOf(t *testing.T, results func(query string) string) (*Actions, unitState) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, results(r.FormValue("query")))
	}))
	t.Cleanup(s.Close)
	u := coveredBy(nil)
	u.Config.Web.PrometheusURL = s.URL
	return &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Root(t)), Event: juju.Event{Unit: "ci/0", ModelUUID: "f47ac10b"}}}, u
}

func TestUsageIsGroupedByTeamAndPipeline(t *testing.T) {
	c, u := usageOf(t, func(query string) string {
		require.Regexp(t, `web=~"f47ac10b/ci\|/\.\*"|juju_application=~"ci\|"`, query)
		require.Contains(t, query, "[30d]")
		for _, a := range answers {
			if strings.Contains(query, a.has) {
				return a.result
			}
		}
		return ""
	})
	for format, ext := range map[string]string{"text": "txt", "json": "json", "csv": "csv"} {
		got, err := c.gpuUsage(t.Context(), u, map[string]any{"since": "30d", "format": format})
		require.NoError(t, err)
		hosttest.Golden(t, "testdata/gpu-usage."+ext, got["usage"].(string)+"\n")
	}
}

func TestUsageRequiresPrometheus(t *testing.T) {
	c, u := usageOf(t, func(string) string { return "" })
	got, err := c.gpuUsage(t.Context(), u, nil)
	require.NoError(t, err)
	require.Contains(t, got["usage"], "in the last 7d")
	require.Contains(t, got["usage"], "none: no build had one, or this Prometheus lacks the charm's rules")
	_, err = c.gpuUsage(t.Context(), u, map[string]any{"since": "a week"})
	require.EqualError(t, err, `cannot tell the usage of GPUs: since: "a week" is no time like 36h, 7d or 4w`)
	u.Config.Web.PrometheusURL = ""
	_, err = c.gpuUsage(t.Context(), u, nil)
	require.ErrorContains(t, err, "set prometheus-url to one that scrapes webs and workers")
	u.Facts.Role = model.WorkerRole
	_, err = c.gpuUsage(t.Context(), u, nil)
	require.ErrorContains(t, err, "this unit is a worker; run it on the web's unit")
}

// A team's name may be a formula in a spreadsheet or a control sequence in a terminal.
func TestNamesInUsageAreEscaped(t *testing.T) {
	c, u := usageOf(t, func(string) string {
		return `{"metric":{"team":"=cmd()","pipeline":"\u001b[2J,\"x"},"value":[0,"1"]}`
	})
	got, err := c.gpuUsage(t.Context(), u, map[string]any{"format": "csv"})
	require.NoError(t, err)
	require.Contains(t, got["usage"], "\n'=cmd(),\"")
	got, err = c.gpuUsage(t.Context(), u, nil)
	require.NoError(t, err)
	require.NotContains(t, got["usage"], "\x1b")
}
