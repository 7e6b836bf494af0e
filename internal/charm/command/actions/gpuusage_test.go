package actions

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// answers maps a text in a query to Prometheus' answer, in the order of the search.
var answers = []struct{ has, result string }{
	{"steps_wait", `{"metric":{"teamName":"main"},"value":[0,"3.4"]}`},
	{"busy_ratio", `{"metric":{"team":"main","pipeline":"rocm"},"value":[0,"20.8"]},
		{"metric":{"team":"dev","pipeline":"deploy/branch:main,n:1"},"value":[0,"0.9"]}`},
	{"energy_joules", `{"metric":{"team":"main","pipeline":"rocm","estimate":"false"},"value":[0,"9.5"]},
		{"metric":{"team":"main","pipeline":"rocm","estimate":"true"},"value":[0,"0.25"]},
		{"metric":{"team":"main","estimate":"false"},"value":[0,"0.2"]}`},
	{"memory_bytes", `{"metric":{"team":"main","pipeline":"rocm"},"value":[0,"62400000000"]}`},
	{"count by", `{"metric":{"team":"main","pipeline":"rocm"},"value":[0,"12"]},
		{"metric":{"team":"main"},"value":[0,"3"]},
		{"metric":{"team":"dev","pipeline":"deploy/branch:main,n:1"},"value":[0,"1"]}`},
	{"held_seconds", `{"metric":{"team":"main","pipeline":"rocm"},"value":[0,"34.25"]},
		{"metric":{"team":"main"},"value":[0,"0.75"]},
		{"metric":{"team":"dev","pipeline":"deploy/branch:main,n:1"},"value":[0,"1.5"]}`},
}

// usageOf runs the action on a web with these answers of Prometheus.
func usageOf(t *testing.T, results func(query string) string) (*Actions, charm.Decision) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, results(r.FormValue("query")))
	}))
	t.Cleanup(s.Close)
	u := coveredBy(nil)
	u.Config.Web.PrometheusURL = s.URL
	event := juju.Event{Unit: "ci/0", ModelUUID: "f47ac10b"}
	return &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Root(t)), Event: event}}, u
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

func TestUsageIsGroupedByJobWithItsCO2(t *testing.T) {
	c, u := usageOf(t, func(query string) string {
		switch {
		case strings.Contains(query, "steps_wait"):
			return ""
		case strings.Contains(query, "energy_joules"):
			return `{"metric":{"team":"main","pipeline":"rocm","job_name":"unit","estimate":"false"},"value":[0,"2"]}`
		}
		return `{"metric":{"team":"main","pipeline":"rocm","job_name":"unit"},"value":[0,"3"]},
			{"metric":{"team":"main","pipeline":"rocm","job_name":"=lint"},"value":[0,"1"]}`
	})
	u.Config.CO2GramsPerKWh = 400
	for format, want := range map[string]string{
		"text": "main  rocm      unit   3       3.00       100 %  0.0 GiB                    2.00 kWh  0.80 kg",
		"csv": "team,pipeline,job,builds,gpu_hours,busy_gpu_hours,peak_memory_bytes,wait_hours," +
			"energy_kwh,energy_estimate,co2_kg\n" +
			"main,*,*,4,4.000000,4.000000,3,0.000000,2.000000,false,0.800000\n" +
			"main,rocm,unit,3,3.000000,3.000000,3,,2.000000,false,0.800000\n" +
			"main,rocm,'=lint,1,1.000000,1.000000,1,,,,",
		"json": `"co2_kg": 0.8`,
	} {
		got, err := c.gpuUsage(t.Context(), u, map[string]any{"format": format, "by": "job"})
		require.NoError(t, err)
		require.Contains(t, got["usage"], want)
	}
}

func TestUsageRequiresPrometheus(t *testing.T) {
	c, u := usageOf(t, func(string) string { return "" })
	got, err := c.gpuUsage(t.Context(), u, nil)
	require.NoError(t, err)
	require.Contains(t, got["usage"], "in the last 7d")
	require.Contains(t, got["usage"], "none: no build had one, or this Prometheus lacks the charm's rules")
	_, err = c.gpuUsage(t.Context(), u, map[string]any{"since": "a week"})
	require.EqualError(t, err, `cannot show the usage of GPUs: since: "a week" is not a time such as 36h, 7d or 4w`)
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
