package flakes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/flakereport"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// bed is the page with its own Concourse, workers and clock.
type bed struct {
	*Flakes
	site     jobexporter.Site
	now      time.Time
	answers  map[string]string // of Concourse, by path
	verdicts map[string]string // of workers, by URL
	asked    []string          // of workers
	read     []string          // of Concourse
	onRead   func()
	mux      *http.ServeMux
	metrics  []prometheus.Metric
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{Flakes: &Flakes{perMinute: 600}, now: hosttest.Now, answers: map[string]string{}, verdicts: map[string]string{}, onRead: func() {}, mux: http.NewServeMux()}
	b.Prepare(Options{Surroundings: jobexporter.Surroundings{Site: func() jobexporter.Site { return b.site }, Every: time.Minute, Version: "v1", Show: func(m []prometheus.Metric) { b.metrics = m },
		Logs: log.New(io.Discard, "", 0), Get: func(ctx context.Context, path string) (io.ReadCloser, error) {
			b.read = append(b.read, path)
			b.onRead()
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			text, known := b.answers[path]
			if !known {
				return nil, fmt.Errorf("404 for %s", path)
			}
			return io.NopCloser(strings.NewReader(text)), nil
		}}, Style: "assets/page.css?x", Now: func() time.Time { return b.now },
		Ask: func(_ context.Context, urls []string, read func(int, io.Reader) error) (errs []error) {
			for i, url := range urls {
				b.asked = append(b.asked, url)
				err := errors.New("it answers 404")
				if text, known := b.verdicts[url]; known {
					err = read(i, strings.NewReader(text))
				}
				errs = append(errs, err)
			}
			return errs
		}}, b.mux)
	return b
}

// handle returns the handle of the container of a build's task.
func handle(build int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", build) }

// build adds a finished build with one task, its container, and a verdict if kind is set.
func (b *bed) build(id int, commit, worker string, exit int) {
	status := []string{"succeeded", "failed"}[min(exit, 1)]
	var list []json.RawMessage
	if text := b.answers["/api/v1/builds?limit=100"]; text != "" {
		_ = json.Unmarshal([]byte(text), &list)
	}
	at := b.now.Add(time.Duration(id-100) * 10 * time.Minute).Unix()
	list = append(list, fmt.Appendf(nil, `{"id":%d,"name":"%d","status":%q,"team_name":"main","pipeline_name":"rocm","job_name":"test","end_time":%d}`, id, id, status, at))
	text, _ := json.Marshal(list)
	b.answers["/api/v1/builds?limit=100"] = string(text)
	path := fmt.Sprintf("/api/v1/builds/%d/", id)
	b.answers[path+"resources"] = fmt.Sprintf(`{"inputs":[{"name":"src","version":{"ref":%q}}]}`, commit)
	b.answers[path+"plan"] = `{"plan":{"id":"c","task":{"name":"unit"}}}`
	b.answers[path+"events"] = fmt.Sprintf("event: event\ndata: {\"event\":\"selected-worker\",\"data\":{\"origin\":{\"id\":\"c\"},\"selected_worker\":%q}}\n\n"+
		"event: event\ndata: {\"event\":\"finish-task\",\"data\":{\"origin\":{\"id\":\"c\"},\"exit_status\":%d,\"time\":%d}}\n\nevent: end\ndata\n\n", worker, exit, at)
	if b.site.Builds == nil {
		b.site.Builds = map[string]jobexporter.Build{}
	}
	b.site.Builds[handle(id)] = jobexporter.Build{Team: "main", Pipeline: "rocm", Job: "test", Name: fmt.Sprint(id), Step: "unit", ID: id, Worker: worker}
}

const w2 = "http://10.0.0.12:9401"

// seen is a fleet of one worker with two GPUs, which no container uses.
func seen() Seen {
	return Seen{Concourse: "https://ci.example.com", Workers: []Worker{{Name: "w2", URL: w2, GPUs: []GPU{{Index: 0, PCI: "0000:03:00.0"},
		{Index: 3, PCI: "0000:83:00.0"}}}, {Name: "w1"}}}
}

func (b *bed) round(t *testing.T) *flakereport.Report {
	t.Helper()
	b.now = b.now.Add(time.Minute)
	b.Round(t.Context())
	return b.Report()
}

func (b *bed) get(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	b.mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w
}

// gpuFails fills a site in which tests fail on GPU 3 of w2 in 7 of 9 builds, and pass on w1.
func (b *bed) gpuFails() {
	var all []string
	for n := range 9 {
		exit := 1
		if n == 2 || n == 6 {
			exit = 0
		}
		id := 10 * (n + 1)
		b.build(id, fmt.Sprint("c", n), "w2", exit)
		at := b.now.Add(time.Duration(id-100) * 10 * time.Minute)
		kind := ""
		if exit > 0 {
			kind = "unknown"
		}
		all = append(all, fmt.Sprintf(`{"handle":%q,"team":"","started":%q,"ended":%q,"exit":%d,"kind":%q,"reason":"x","text":"no sign","gpus":["0000:83:00.0"]}`,
			handle(id), at.Add(-time.Minute).Format(time.RFC3339), at.Format(time.RFC3339), exit, kind))
		for m := range 4 {
			b.build(id+m+1, fmt.Sprint("c", n), "w1", 0)
		}
	}
	b.verdicts[w2+"/api/v1/verdicts"] = "[" + strings.Join(all, ",") + "]"
}

func TestTableNamesTheGPUOnWhichATaskFails(t *testing.T) {
	b := newBed(t)
	b.gpuFails()
	b.See(seen())
	r := b.round(t)
	require.Empty(t, r.Problem)
	require.Equal(t, []int{45, 0, 45}, []int{r.Builds, r.Unread, r.Runs})
	require.Len(t, r.Flakes, 1)
	f := r.Flakes[0]
	require.Equal(t, "this task failed on worker w2 in 7 of 9 runs and on other workers in 0 of 36", f.Sentence, "GPU 3 alone was used there")
	text := b.get(t, "/flakes").Body.String()
	require.Contains(t, text, f.Sentence)
	require.Contains(t, text, `<a href="https://ci.example.com/builds/90">#90</a>`)
	require.Contains(t, text, "15.6 %")
	require.Len(t, b.metrics, 7, "three places and four causes")
}

// GPUs that the fleet page saw in use name the place too, without any verdict.
func TestGPUsInUseNameThePlaceWithoutVerdicts(t *testing.T) {
	b := newBed(t)
	b.gpuFails()
	delete(b.verdicts, w2+"/api/v1/verdicts")
	for n := range 9 {
		for m := range 3 { // other GPUs of the worker
			b.build(10*(n+1)+5+m, fmt.Sprint("c", n), "w2", 0)
		}
	}
	for n := range 9 {
		s := seen()
		s.Workers[0].GPUs[1].Holders = []string{handle(10 * (n + 1)), "a-docker-container"}
		for m := range 3 {
			s.Workers[0].GPUs[0].Holders = append(s.Workers[0].GPUs[0].Holders, handle(10*(n+1)+5+m))
		}
		b.See(s)
		b.round(t)
	}
	r := b.Report()
	require.Len(t, r.Flakes, 1)
	require.Equal(t, flake.KindGPU, r.Flakes[0].Kind)
	require.Equal(t, "this task failed on GPU 3 (0000:83:00.0) of worker w2 in 7 of 9 runs and on others in 0 of 27", r.Flakes[0].Sentence,
		"only runs with known GPUs count")
}

func TestFilterShowsMatchingRows(t *testing.T) {
	b := newBed(t)
	b.gpuFails()
	b.See(seen())
	b.round(t)
	for query, found := range map[string]bool{"": true, "?q=ROCM": true, "?q=w2&kind=worker": true, "?kind=gpu": false, "?q=other%22%3E%3Cscript%3E": false,
		"?kind=nonsense": true, "?q=" + strings.Repeat("x", 10_000): false} {
		w := b.get(t, "/flakes"+query)
		require.Equal(t, 200, w.Code)
		require.Equal(t, found, strings.Contains(w.Body.String(), "in 7 of 9 runs"), query)
		require.NotContains(t, w.Body.String(), "<script")
		require.Less(t, w.Body.Len(), 20_000)
	}
	h := b.get(t, "/flakes").Header()
	require.Equal(t, policy, h.Get("Content-Security-Policy"))
	require.NotContains(t, policy, "script-src")
	require.NotContains(t, policy, "unsafe")
}

func TestInfrastructureIsNotAFlakeAndIsNamed(t *testing.T) {
	b := newBed(t)
	var all []string
	for n := range 3 {
		b.build(2*n+1, fmt.Sprint(n), "w2", 1)
		b.build(2*n+2, fmt.Sprint(n), "w2", 0)
		all = append(all, fmt.Sprintf(`{"handle":%q,"ended":%q,"exit":137,"kind":"neighbour","text":"OOM\u001b[2J of a neighbour","gpus":[]}`, handle(2*n+1),
			b.now.Add(time.Duration(2*n+1-100)*10*time.Minute).Format(time.RFC3339)))
	}
	b.verdicts[w2+"/api/v1/verdicts"] = "[" + strings.Join(all, ",") + "]"
	b.See(seen())
	r := b.round(t)
	require.Empty(t, r.Flakes)
	require.Len(t, r.Lost, 3)
	require.Equal(t, "failed by infrastructure, run again (neighbour: OOM?[2J of a neighbour)", r.Lost[0].Sentence)
	require.Contains(t, b.get(t, "/flakes").Body.String(), "failed by infrastructure, run again")
	for lost, kind := range map[int]string{0: "", 1: "warning"} {
		few := *r
		few.Lost = r.Lost[:lost]
		require.Equal(t, kind, viewOf(few, filter{}, "", b.now).Numbers[1].Kind, lost)
	}
}

// The answer to a later task of the build has no names, and never blames infrastructure if a
// task failed by itself.
func TestBuildOfATaskIsJudged(t *testing.T) {
	b := newBed(t)
	entry := func(n int, kind string) string {
		return fmt.Sprintf(`{"handle":%q,"ended":"2026-01-01T00:00:00Z","exit":1,"kind":%q,"reason":"disk-full","text":"a sign","gpus":[]}`, handle(n), kind)
	}
	for n, build := range map[int]int{1: 5, 2: 5, 3: 6, 4: 6, 5: 7} {
		if b.site.Builds == nil {
			b.site.Builds = map[string]jobexporter.Build{}
		}
		b.site.Builds[handle(n)] = jobexporter.Build{Team: "secret", ID: build, Step: fmt.Sprint(n), Worker: "w2"}
	}
	b.verdicts[w2+"/api/v1/verdicts"] = "[" + entry(1, "machine") + "," + entry(3, "gpu") + "," + entry(4, "task") + "]"
	b.See(seen())
	b.round(t)
	for n, want := range map[int]string{
		2: `{"infrastructure":true,"sentence":"failed by infrastructure, run again (machine: disk-full)"}`,
		3: `{"infrastructure":false,"sentence":""}`, 5: `{"infrastructure":false,"sentence":""}`,
	} {
		w := b.get(t, "/api/v1/flakes/build-of/"+handle(n))
		require.JSONEq(t, want, w.Body.String())
	}
	require.Equal(t, 404, b.get(t, "/api/v1/flakes/build-of/"+handle(9)).Code)
	require.Equal(t, 400, b.get(t, "/api/v1/flakes/build-of/x").Code)
}

func TestNamesAreHiddenWithTheFleets(t *testing.T) {
	b := newBed(t)
	b.gpuFails()
	require.Empty(t, b.round(t).Flakes, "before the fleet is known")
	require.NotContains(t, b.get(t, "/api/v1/flakes").Body.String(), "rocm")
	s := seen()
	s.HideNames = true
	b.See(s)
	r := b.round(t)
	require.Contains(t, r.Problem, "fleet-page=anonymous")
	require.NotContains(t, b.get(t, "/flakes").Body.String()+b.get(t, "/api/v1/flakes").Body.String(), "rocm")
}

// fleet-page=anonymous takes effect without a new build.
func TestNamesAreHiddenAtOnce(t *testing.T) {
	b := newBed(t)
	b.gpuFails()
	b.See(seen())
	b.round(t)
	pages := func() string { return b.get(t, "/flakes").Body.String() + b.get(t, "/api/v1/flakes").Body.String() }
	require.Contains(t, pages(), "rocm")
	hidden := seen()
	hidden.HideNames = true
	b.See(hidden)
	require.NotContains(t, pages(), "rocm")
	require.Contains(t, pages(), "fleet-page=anonymous")
	b.read = nil
	b.round(t)
	require.NotContains(t, pages(), "rocm")
	require.Empty(t, b.read, "of Concourse")
	require.Empty(t, b.metrics)
	require.Contains(t, b.get(t, "/api/v1/flakes/build-of/"+handle(10)).Body.String(), "infrastructure", "it has no names")
	b.See(seen())
	b.round(t)
	require.Contains(t, pages(), "rocm")
}

// A round that has begun reads no more, and does not show its names.
func TestNamesAreHiddenDuringARound(t *testing.T) {
	b := newBed(t)
	b.gpuFails()
	b.See(seen())
	hidden := seen()
	hidden.HideNames = true
	b.onRead = func() { b.See(hidden) }
	b.round(t)
	require.Len(t, b.read, 1)
	require.NotContains(t, b.get(t, "/api/v1/flakes").Body.String(), "rocm")
	require.Empty(t, b.metrics)
	for range 3 { // tries to read the newest build
		b.See(seen())
		b.onRead = func() {
			if strings.Contains(b.read[len(b.read)-1], "94/resources") {
				b.See(hidden)
			}
		}
		b.round(t)
	}
	b.onRead = func() {}
	b.See(seen())
	r := b.round(t)
	require.Equal(t, []int{45, 0, 45}, []int{r.Builds, r.Unread, r.Runs}, "no build is left out as unreadable")
}

// An outage of Concourse keeps the last table and is shown.
func TestOutageKeepsTheTable(t *testing.T) {
	b := newBed(t)
	b.gpuFails()
	b.See(seen())
	b.round(t)
	saved := b.answers
	b.answers = nil
	r := b.round(t)
	require.NotEmpty(t, r.Problem)
	require.Len(t, r.Flakes, 1)
	b.answers = saved
	require.Empty(t, b.round(t).Problem)
}

func TestSchemaDescribesTheAPI(t *testing.T) {
	text := exportertest.Schema(t, reflect.TypeFor[flakereport.Report](), "Answer of /api/v1/flakes", map[reflect.Type]any{
		reflect.TypeFor[flake.Kind]():  []flake.Kind{flake.KindTest, flake.KindGPU, flake.KindWorker},
		reflect.TypeFor[flake.Cause](): []flake.Cause{flake.ByGPU, flake.ByMachine, flake.ByNeighbour, flake.ByConcourse}})
	hosttest.Golden(t, "schema.json", text)
	b := newBed(t)
	require.Equal(t, string(schema), b.get(t, "/api/v1/flakes/schema").Body.String())
	require.NotContains(t, b.get(t, "/api/v1/flakes").Body.String(), "null", "the schema has no null in place of a list")
	b.gpuFails()
	b.See(seen())
	b.round(t)
	require.NotContains(t, b.get(t, "/api/v1/flakes").Body.String(), "null")
}

func TestNumberOfRequestsIsEnoughToReadBuilds(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "5": 5, "6000": 6000, "4": -1, "-1": -1, "6001": -1, "60x": -1, "": -1} {
		var f Flakes
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Flags(fs)
		if err := fs.Parse([]string{"--flakes.requests=" + text}); want < 0 {
			require.ErrorContains(t, err, "want 0 or a number from 5 to 6000")
		} else {
			require.NoError(t, err)
			require.Equal(t, want, f.perMinute)
		}
	}
}
