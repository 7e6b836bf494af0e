package jobexporter

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestMetricsOfASite(t *testing.T) {
	b := newBed(t)
	b.o.RequiredArchs = []string{"gfx942", "gfx90a", "gfx1100"}
	b.web.Set((*atctest.Server).Site)
	require.NoError(t, b.poll(t))
	hosttest.Golden(t, "testdata/site.prom", b.scrape(t))
}

// Workers are no business of a site that requires no architecture; a worker that
// does not run and one that has another architecture do not count.
func TestWorkersAreCountedIfArchitecturesAreRequired(t *testing.T) {
	b := newBed(t)
	b.web.Set((*atctest.Server).Site)
	require.NoError(t, b.poll(t))
	asked, _ := b.web.Seen()
	require.NotContains(t, asked, "GET "+atctest.Workers)
	require.NotContains(t, b.scrape(t), "concourse_required_arch_workers{")

	b.o.RequiredArchs = []string{"gfx942", "gfx1100"}
	require.NoError(t, b.poll(t))
	require.Contains(t, b.scrape(t), "concourse_required_arch_workers{arch=\"gfx1100\"} 0\nconcourse_required_arch_workers{arch=\"gfx942\"} 1\n")

	b.web.Set(func(s *atctest.Server) { s.Answers[atctest.Workers] = `[{"tags":"gfx=gfx942"}]` })
	require.ErrorContains(t, b.poll(t), "cannot get /api/v1/workers: the web at ")
}

func TestMetricsBeforeTheFirstAnswer(t *testing.T) {
	hosttest.Golden(t, "testdata/unasked.prom", newBed(t).scrape(t))
}

// The predecessor's names, labels and values, by its users' alerts and panels.
func TestPredecessorsMetricsAreTheSame(t *testing.T) {
	b := newBed(t)
	b.web.Set((*atctest.Server).Site)
	require.NoError(t, b.poll(t))
	text := b.scrape(t)
	for job, want := range map[string]int{"succeeded": 1, "failed": 0, "errored": -1, "aborted": -2, "started": -3, "pending": -4, "never": -4, "unheard-of": -999} {
		require.Contains(t, text, fmt.Sprintf("concourse_job_last_build_status{job=%q,pipeline=\"plain\",team=\"main\"} %d\n", job, want))
	}
	require.Contains(t, text, `concourse_job_last_build_duration_seconds{job="succeeded",pipeline="plain",status="succeeded",team="main"} 121`+"\n")
	require.Contains(t, text, `concourse_job_last_build_timestamp{job="succeeded",pipeline="plain",status="succeeded",team="main"} 1.795267321e+09`+"\n")
	require.Contains(t, text, "\nconcourse_pipelines_total 4\n")
	require.Contains(t, text, "\nconcourse_jobs_total 10\n")
	require.Contains(t, text, "\nconcourse_exporter_info{version=\"v1.2.3\"} 1\n")
}

func TestFinishedBuildWinsOverARunningOne(t *testing.T) {
	v := newView(nil)
	v.addJob(job{Team: "a", Pipeline: "b", Name: "c", Finished: &build{Status: "failed", Start: 1, End: 2}, Next: &nextBuild{build: build{Status: "started", Start: 3}}})
	var first dto.Metric
	require.NoError(t, v.metrics[0].Write(&first))
	require.Equal(t, 0.0, first.GetGauge().GetValue())
}

// Concourse lists them still; the predecessor did not show them.
func TestJobsOfArchivedPipelinesAreNotShown(t *testing.T) {
	b := newBed(t)
	b.web.Set((*atctest.Server).Site)
	require.NoError(t, b.poll(t))
	text := b.scrape(t)
	require.NotContains(t, text, `pipeline="old"`)
	require.Contains(t, text, "\nconcourse_jobs_total 10\n")
	require.Contains(t, text, "\nconcourse_pipelines_archived 1\n")
}

func TestBuildThatNeverStartedHasNoDuration(t *testing.T) {
	for name, c := range map[string]struct {
		build
		duration, timestamp bool
	}{
		"ran":                        {build{"failed", 100, 105}, true, true},
		"ended in its first second":  {build{"failed", 100, 100}, true, true},
		"no start":                   {build{"aborted", 0, 105}, false, true},
		"Go's zero time as start":    {build{"aborted", -62135596800, 105}, false, true},
		"ends before it starts":      {build{"failed", 106, 105}, false, true},
		"no end":                     {build{"failed", 100, 0}, false, false},
		"Go's zero time as end":      {build{"failed", 100, -62135596800}, false, false},
		"start and end are the zero": {build{"aborted", -62135596800, -62135596800}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := newView(nil)
			v.addJob(job{Team: "a", Pipeline: "b", Name: "c", Finished: &c.build})
			has := map[*prometheus.Desc]bool{}
			for _, m := range v.metrics {
				has[m.Desc()] = true
			}
			require.Equal(t, c.duration, has[families[jobDuration].desc])
			require.Equal(t, c.timestamp, has[families[jobTimestamp].desc])
			require.True(t, has[families[jobStatus].desc])
		})
	}
}

// Two instances had one series, and the last one won.
func TestD58InstancesOfAPipelineHaveDifferentNames(t *testing.T) {
	b := newBed(t)
	b.web.Set((*atctest.Server).Site)
	require.NoError(t, b.poll(t))
	text := b.scrape(t)
	require.Contains(t, text, `concourse_job_last_build_status{job="ship \"it\"",pipeline="deploy/branch:main,n:1",team="dev"} 1`)
	require.Contains(t, text, `concourse_job_last_build_status{job="ship \"it\"",pipeline="deploy/branch:\"yes\",n:1",team="dev"} 0`)
}

func TestWhatCannotBeShownIsCounted(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	v := newView(nil)
	for _, j := range []job{
		{Team: "a", Pipeline: "b", Name: "c"}, {Team: "a", Pipeline: "b", Name: "c", Paused: true},
		{Team: "a", Pipeline: "b"}, {Team: "a", Name: "c"}, {Pipeline: "b", Name: "c"},
		{Team: "a", Pipeline: "b", Name: long}, {Team: "a", Pipeline: "b", Vars: map[string]any{"v": long}, Name: "c"},
	} {
		v.addJob(j)
	}
	for _, p := range []pipeline{{Team: "a", Name: "b"}, {Team: "a", Name: "b"}, {Team: "a"}, {Name: "b"}, {Team: long, Name: "b"}} {
		v.addPipeline(p)
	}
	require.Equal(t, map[string]int{"job": 6, "pipeline": 4}, v.skipped)
	require.Len(t, v.metrics, 4, "status, paused and failures of the one job, paused of the one pipeline")
}

// Names that Prometheus' own rules refuse; the predecessor's, all gauges.
func TestNamesPassLintButForTheContractsOwn(t *testing.T) {
	b := newBed(t)
	b.web.Set((*atctest.Server).Site)
	require.NoError(t, b.poll(t))
	problems, err := promlint.New(strings.NewReader(b.scrape(t))).Lint()
	require.NoError(t, err)
	found := map[string]string{}
	for _, p := range problems {
		found[p.Metric] = p.Text
	}
	require.Equal(t, map[string]string{
		"concourse_jobs_total":      `non-counter metrics should not have "_total" suffix`,
		"concourse_pipelines_total": `non-counter metrics should not have "_total" suffix`,
	}, found)
}

func TestPaths(t *testing.T) {
	b := newBed(t)
	h := Handler(b.Poller, false)
	get := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w
	}
	require.Equal(t, http.StatusServiceUnavailable, get("GET", "/-/ready").Code)
	require.NoError(t, b.poll(t))
	for _, c := range []struct {
		method, path string
		code         int
		has          string
	}{
		{"GET", "/metrics", 200, "concourse_exporter_up 1\n"},
		{"GET", "/-/healthy", 200, "concourse-exporter is healthy.\n"},
		{"GET", "/-/ready", 200, "Concourse answers.\n"},
		{"GET", "/", 404, ""}, {"GET", "/etc/passwd", 404, ""},
		{"POST", "/metrics", 405, ""}, {"DELETE", "/-/healthy", 405, ""},
	} {
		w := get(c.method, c.path)
		require.Equal(t, c.code, w.Code, c.path)
		require.Contains(t, w.Body.String(), c.has)
	}
	asked, _ := b.web.Seen()
	require.Len(t, asked, 5, "a login, three lists and one of the team's containers; a scrape asks nothing")
}

func TestMetricsOfTheProcessNeedTheFlag(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(newBed(t).Poller, true).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Contains(t, w.Body.String(), "\nprocess_start_time_seconds ")
	require.Contains(t, w.Body.String(), "\nconcourse_exporter_up 0\n")
}

func TestScrapeIsInOpenMetricsAndCompressedForWhoAsks(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.poll(t))
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	w := httptest.NewRecorder()
	Handler(b.Poller, false).ServeHTTP(w, r)
	require.Contains(t, w.Body.String(), "# TYPE concourse_exporter_polls counter\nconcourse_exporter_polls_total{")
	require.True(t, strings.HasSuffix(w.Body.String(), "# EOF\n"))
	r.Header.Set("Accept-Encoding", "gzip")
	w = httptest.NewRecorder()
	Handler(b.Poller, false).ServeHTTP(w, r)
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
}
