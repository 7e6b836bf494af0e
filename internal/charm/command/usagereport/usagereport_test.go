package usagereport

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestWindowIsHoursDaysOrWeeks(t *testing.T) {
	for _, good := range []string{"1h", "36h", "7d", "4w", "9999h"} {
		require.NoError(t, CheckWindow(good))
	}
	for _, wrong := range []string{"", "7", "d", "0d", "-1d", "7m", "1.5d", "7d]", "12345h", "7 d", "7d\n"} {
		require.Error(t, CheckWindow(wrong), wrong)
	}
}

func TestTeamsAreTheSumsOfTheirPipelines(t *testing.T) {
	one := func(team, pipeline string, n float64) sample {
		return sample{map[string]string{"team": team, "pipeline": pipeline}, value(n)}
	}
	energy := func(team, pipeline string, n float64, estimate string) sample {
		s := one(team, pipeline, n)
		s.Metric["estimate"] = estimate
		return s
	}
	waited := func(team string, n float64) sample { return sample{map[string]string{"teamName": team}, value(n)} }
	teams := joinTeams(map[string][]sample{
		"held":   {one("a", "small", 1), one("a", "big", 3), one("b", "", 8)},
		"busy":   {one("a", "small", 0.5), one("a", "big", 1.5), one("gone", "x", 1)},
		"builds": {one("a", "small", 2), one("a", "big", 1), one("b", "", 4)},
		"memory": {one("a", "small", 9), one("a", "big", 7)},
		"energy": {energy("a", "small", 1.5, "false"), energy("a", "big", 2, "false"),
			energy("a", "big", 0.25, "true"), energy("gone", "x", 1, "false")},
		"wait": {waited("a", 0.25), waited("idle", 0), waited("queue", 2)},
	})
	require.Len(t, teams, 3)
	require.Equal(t, "b", teams[0].Name)
	require.Nil(t, teams[0].BusyHours, "no GPU tells")
	a := teams[1]
	require.Equal(t, 4.0, a.GPUHours)
	require.Equal(t, 2.0, *a.BusyHours)
	require.Equal(t, 9.0, *a.Memory)
	require.Equal(t, 3, a.Builds)
	require.Equal(t, 3.75, *a.Energy)
	require.True(t, a.Estimate)
	require.False(t, a.Pipelines[1].Estimate, "another pipeline's is one")
	require.Nil(t, teams[0].Energy)
	require.Equal(t, 0.25, a.WaitHours)
	require.Equal(t, []string{"big", "small"}, []string{a.Pipelines[0].Name, a.Pipelines[1].Name})
	require.Equal(t, "queue", teams[2].Name, "it waited, and got none")
	require.Empty(t, teams[2].Pipelines)
}

func TestRowsAreJobsIfRequested(t *testing.T) {
	require.NotContains(t, queries(Request{Since: "7d"})["held"], "job_name")
	require.Contains(t, queries(Request{Since: "7d", By: ByJob})["energy"], "sum by (team, pipeline, job_name, estimate)")
	one := func(job string, n float64) sample {
		return sample{map[string]string{"team": "a", "pipeline": "p", "job_name": job}, value(n)}
	}
	teams := joinTeams(map[string][]sample{"held": {one("unit", 1), one("profile", 2)}, "energy": {one("unit", .5)}})
	require.Equal(t, []string{"profile", "unit"}, []string{teams[0].Pipelines[0].Job, teams[0].Pipelines[1].Job})
	require.Equal(t, .5, *teams[0].Pipelines[1].Energy)
	require.Equal(t, 3.0, teams[0].GPUHours)
}

func TestAnswerOfAnotherServerIsNamed(t *testing.T) {
	for answer, want := range map[string]string{
		`{"status":"error","error":"query timed out"}`: `it reports "query timed out"`,
		"<html>": "it is not an answer to a query",
		`{"status":"success","data":{"resultType":"scalar","result":[]}}`:                    "it is not a vector",
		`{"status":"success","data":{"resultType":"vector","result":[{"value":[1,2,"3"]}]}}`: "it is not an answer to a query",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }))
		_, err := Fetch(t.Context(), s.URL, Request{Since: "7d"}, hosttest.Now)
		require.ErrorContains(t, err, "cannot use the answer of "+s.URL+": "+want)
		s.Close()
		_, err = Fetch(t.Context(), s.URL, Request{Since: "7d"}, hosttest.Now)
		require.ErrorContains(t, err, "cannot reach "+s.URL+": ")
		require.NotContains(t, err.Error(), "max_over_time", "a query is no help to anybody")
	}
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	_, err := Fetch(t.Context(), s.URL, Request{Since: "7d"}, hosttest.Now)
	require.ErrorContains(t, err, "404 Not Found: it is not an answer to a query; check that prometheus-url is a Prometheus")
}

// Values of any answer can be summed.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"team":"a"},"value":[1795267200.1,"3.5"]}]}}`)
	f.Add(`{"status":"success","data":{"resultType":"vector","result":[{"metric":null,"value":[0,"NaN"]},{"value":[0,"-Inf"]}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := decode(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, team := range joinTeams(map[string][]sample{
			"held": got, "busy": got, "builds": got, "memory": got, "energy": got, "wait": got,
		}) {
			require.GreaterOrEqual(t, team.GPUHours, 0.0)
		}
	})
}
